from collections.abc import Sequence

from sqlalchemy import select
from sqlalchemy.orm import Session

from nac.ids import TenantId
from nac.models import AuditEntry


def list_entries(
    session: Session, *, tenant_id: TenantId | None, before_id: int | None, limit: int
) -> Sequence[AuditEntry]:
    query = select(AuditEntry).order_by(AuditEntry.id.desc()).limit(limit)
    if tenant_id is not None:
        query = query.where(AuditEntry.tenant_id == tenant_id)
    if before_id is not None:
        query = query.where(AuditEntry.id < before_id)
    return session.scalars(query).all()
