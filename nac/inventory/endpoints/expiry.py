"""Expiry of endpoints: deletes endpoints that nobody classified, and records expired approvals."""

from datetime import timedelta

from sqlalchemy import CursorResult, delete, func, or_, select
from sqlalchemy.orm import Session

from nac.inventory.endpoints.enrichment import IS_RANDOM_ENDPOINT, delete_sightings
from nac.kit.clock import utc_now
from nac.kit.ids import TenantId
from nac.models import Endpoint, EndpointSighting

BATCH_SIZE = 1_000
EXPIRE_AFTER = timedelta(days=30)
# Most phones change their random address daily, or use another address in each network.
RANDOM_EXPIRE_AFTER = timedelta(days=1)
DISCOVERED_BATCH_SIZE = 5_000


def record_expired_approvals(session: Session) -> int:
    """Record a batch of expired approvals of all tenants, and return the size of the batch. Each approval is recorded
    once.

    Needs the role admit_worker and PlatformScope.
    """
    return session.scalar(select(func.note_expired_endpoints(BATCH_SIZE))) or 0


def expire_discovered(session: Session, *, tenant_id: TenantId) -> int:
    """Delete up to `DISCOVERED_BATCH_SIZE` discovered or ignored endpoints that were last seen too long ago.

    Returns the number of deleted endpoints.
    """
    now = utc_now()
    last_seen = func.coalesce(EndpointSighting.last_seen_at, Endpoint.first_seen_at, Endpoint.created_at)
    stale = (
        select(Endpoint.id, Endpoint.mac)
        .outerjoin(
            EndpointSighting,
            (EndpointSighting.tenant_id == Endpoint.tenant_id) & (EndpointSighting.mac == Endpoint.mac),
        )
        .where(
            Endpoint.tenant_id == tenant_id,
            Endpoint.status.in_(("discovered", "ignored")),
            or_(last_seen < now - EXPIRE_AFTER, IS_RANDOM_ENDPOINT & (last_seen < now - RANDOM_EXPIRE_AFTER)),
        )
        .limit(DISCOVERED_BATCH_SIZE)
        .with_for_update(of=Endpoint, skip_locked=True)
    )
    found = session.execute(stale).all()
    if not found:
        return 0
    ids = [endpoint_id for endpoint_id, _ in found]
    deleted = session.execute(delete(Endpoint).where(Endpoint.tenant_id == tenant_id, Endpoint.id.in_(ids)))
    assert isinstance(deleted, CursorResult)
    delete_sightings(session, tenant_id=tenant_id, macs=[mac for _, mac in found])
    return deleted.rowcount
