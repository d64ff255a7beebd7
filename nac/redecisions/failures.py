"""Where a tenant's sessions cannot be decided anew, from the first time on until they are."""

from sqlalchemy import delete
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from nac.ids import TenantId
from nac.models import RedecisionFailure

_MAX_CHARACTERS = 300


def record_failure(session: Session, *, tenant_id: TenantId, detail: str) -> None:
    """Once more; the cell tells of it as an alarm when it has been a few times."""
    told = detail[:_MAX_CHARACTERS]
    row = insert(RedecisionFailure).values(tenant_id=tenant_id, detail=told)
    times = RedecisionFailure.times + 1
    session.execute(row.on_conflict_do_update(index_elements=["tenant_id"], set_={"times": times, "detail": told}))


def clear_failure(session: Session, *, tenant_id: TenantId) -> None:
    session.execute(delete(RedecisionFailure).where(RedecisionFailure.tenant_id == tenant_id))
