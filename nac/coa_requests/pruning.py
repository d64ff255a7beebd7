"""Requests to NASes that ended long ago are forgotten."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from sqlalchemy import CursorResult, Engine, delete, select

from nac.clock import utc_now
from nac.db import PlatformScope, TenantScope, session_scope
from nac.ids import TenantId
from nac.models import CoaRequest, Tenant

KEPT_DAYS = 90
# Rows of one transaction.
BATCH = 5_000


def prune_requests(*, engine: Engine | None = None, now: datetime | None = None) -> int:
    """Delete what ended more than KEPT_DAYS ago, of every tenant; returns how many. As admit_worker.

    May be run again, and twice at a time.
    """
    oldest = (now or utc_now()) - timedelta(days=KEPT_DAYS)
    with session_scope(PlatformScope(), engine=engine) as session:
        tenants: Sequence[TenantId] = session.scalars(select(Tenant.id)).all()
    deleted = 0
    for tenant_id in tenants:
        while count := _prune(tenant_id, oldest, engine):
            deleted += count
    return deleted


def _prune(tenant_id: TenantId, oldest: datetime, engine: Engine | None) -> int:
    # Those that were asked first come first, so only old rows are read.
    old = (
        select(CoaRequest.id)
        .where(CoaRequest.tenant_id == tenant_id, CoaRequest.created_at < oldest, CoaRequest.ended_at < oldest)
        .order_by(CoaRequest.id)
        .limit(BATCH)
    )
    with session_scope(TenantScope(tenant_id), engine=engine) as session:
        result = session.execute(delete(CoaRequest).where(CoaRequest.id.in_(old)))
        assert isinstance(result, CursorResult)
        return result.rowcount
