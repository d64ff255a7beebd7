"""What the worker has to look at: written by whoever changes what vendor, profile or a group's rule go by."""

from collections.abc import Iterable, Sequence
from uuid import UUID

from sqlalchemy import Function, func, insert, select, text
from sqlalchemy.orm import Session

from nac.db import by_place
from nac.ids import TenantId
from nac.models import EndpointWork

# Of one tenant. While so much waits, cells write nothing new down (radius/agent/sightings.py); what people change is
# always taken.
MOST_WAITING = 100_000
_TENANTS = text("SELECT tenants_with_endpoint_work()")
_OLDEST = text("SELECT ctid::text FROM endpoint_work WHERE tenant_id = :tenant ORDER BY id LIMIT :limit")
_TAKE = text(
    "DELETE FROM endpoint_work WHERE tenant_id = :tenant AND ctid = ANY (CAST(:places AS tid[])) "
    "RETURNING replace(mac::text, ':', '')"
)


def enqueue(session: Session, *, tenant_id: TenantId, macs: Iterable[str]) -> None:
    """Within a second of the commit the worker looks at these addresses."""
    rows = [{"tenant_id": tenant_id, "mac": mac} for mac in macs]
    if rows:
        session.execute(insert(EndpointWork), rows)


def tenants(session: Session) -> Sequence[UUID]:
    """Those that there is work for. As admit_worker."""
    return session.scalars(_TENANTS).all()


def begin(session: Session, *, tenant_id: TenantId) -> bool:
    """Take the tenant's work until the transaction ends; False where another worker has it."""
    return bool(session.scalar(select(func.pg_try_advisory_xact_lock(*_key(tenant_id)))))


def hold(session: Session, *, tenant_id: TenantId) -> None:
    """Wait until no worker has the tenant's work, and let none begin until the transaction ends."""
    session.execute(select(func.pg_advisory_xact_lock(*_key(tenant_id))))


def _key(tenant_id: TenantId) -> tuple[Function[int], Function[int]]:
    return func.hashtext("endpoint_work"), func.hashtext(str(tenant_id))


def take(session: Session, *, tenant_id: TenantId, limit: int) -> set[str]:
    """The addresses that came first, taken off the list. What is appended meanwhile stays for the next turn."""
    places = session.scalars(_OLDEST, {"tenant": tenant_id, "limit": limit}).all()
    if not places:
        return set()
    with by_place(session):
        return set(session.scalars(_TAKE, {"tenant": tenant_id, "places": places}))
