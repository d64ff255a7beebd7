from collections.abc import Sequence

from sqlalchemy import select
from sqlalchemy.orm import Session

from nac.ids import TenantId
from nac.models import IdentitySource


def get_by_name(session: Session, tenant_id: TenantId, name: str) -> IdentitySource | None:
    return session.scalar(
        select(IdentitySource).where(IdentitySource.tenant_id == tenant_id, IdentitySource.name == name)
    )


def list_all(session: Session, tenant_id: TenantId) -> Sequence[IdentitySource]:
    query = select(IdentitySource).where(IdentitySource.tenant_id == tenant_id)
    return session.scalars(query.order_by(IdentitySource.position, IdentitySource.name)).all()
