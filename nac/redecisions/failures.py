"""Tenants whose sessions cannot be decided, from the first failure until recovery."""

from sqlalchemy import delete
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from nac.kit.ids import TenantId
from nac.models import RedecisionFailure

_MAX_CHARACTERS = 300


def record_failure(session: Session, *, tenant_id: TenantId, detail: str) -> None:
    """Count a failure. After several the cell raises an alarm."""
    message = detail[:_MAX_CHARACTERS]
    row = insert(RedecisionFailure).values(tenant_id=tenant_id, detail=message)
    times = RedecisionFailure.times + 1
    session.execute(row.on_conflict_do_update(index_elements=["tenant_id"], set_={"times": times, "detail": message}))


def clear_failure(session: Session, *, tenant_id: TenantId) -> None:
    session.execute(delete(RedecisionFailure).where(RedecisionFailure.tenant_id == tenant_id))
