"""The worker's queue: addresses of endpoints whose vendor, profile or rule-based groups may have changed."""

from collections.abc import Iterable, Sequence
from uuid import UUID

from sqlalchemy import Function, func, insert, select, text
from sqlalchemy.orm import Session

from nac.kit.db import force_ctid_scan
from nac.kit.ids import TenantId
from nac.models import EndpointWork

# Length of a tenant's queue above which cells add no sightings (radius/agent/shipping/sightings.py). Changes by users
# are always added.
MAX_WAITING = 100_000
_TENANTS_SQL = text("SELECT tenants_with_endpoint_work()")
_OLDEST_SQL = text("SELECT ctid::text FROM endpoint_work WHERE tenant_id = :tenant ORDER BY id LIMIT :limit")
_TAKE_SQL = text(
    "DELETE FROM endpoint_work WHERE tenant_id = :tenant AND ctid = ANY (CAST(:places AS tid[])) "
    "RETURNING replace(mac::text, ':', '')"
)


def enqueue(session: Session, *, tenant_id: TenantId, macs: Iterable[str]) -> None:
    """Queue addresses. The worker processes the addresses within a second of the commit."""
    rows = [{"tenant_id": tenant_id, "mac": mac} for mac in macs]
    if rows:
        session.execute(insert(EndpointWork), rows)


def list_tenants(session: Session) -> Sequence[UUID]:
    """Return tenants with queued work. Needs the role admit_worker."""
    return session.scalars(_TENANTS_SQL).all()


def try_lock_queue(session: Session, *, tenant_id: TenantId) -> bool:
    """Lock the tenant's queue until the transaction ends. Return False if another worker has the lock."""
    return bool(session.scalar(select(func.pg_try_advisory_xact_lock(*_lock_key(tenant_id)))))


def lock_queue(session: Session, *, tenant_id: TenantId) -> None:
    """Wait for the lock of the tenant's queue, and hold the lock until the transaction ends."""
    session.execute(select(func.pg_advisory_xact_lock(*_lock_key(tenant_id))))


def _lock_key(tenant_id: TenantId) -> tuple[Function[int], Function[int]]:
    return func.hashtext("endpoint_work"), func.hashtext(str(tenant_id))


def take_batch(session: Session, *, tenant_id: TenantId, limit: int) -> set[str]:
    """Remove and return up to `limit` queued addresses, oldest first. Addresses that other transactions queue meanwhile
    stay in the queue."""
    places = session.scalars(_OLDEST_SQL, {"tenant": tenant_id, "limit": limit}).all()
    if not places:
        return set()
    with force_ctid_scan(session):
        return set(session.scalars(_TAKE_SQL, {"tenant": tenant_id, "places": places}))
