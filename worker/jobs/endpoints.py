"""Updates endpoints from sightings, and deletes or records expired endpoints."""

import time

from celery import shared_task

from nac.inventory.endpoints import enrichment
from nac.inventory.endpoints.enrichment import enrich_batch
from nac.inventory.endpoints.service import DISCOVERED_BATCH_SIZE, expire_discovered, record_expired_approvals
from nac.kit.db import PlatformScope, TenantScope, session_scope
from nac.kit.ids import TenantId
from worker.task_classes import UpkeepTask
from worker.tenant_turns import iterate_tenants, run_in_turns

# Time limit of a run, so that no job occupies a worker process for long. The next run, a second later, continues.
_TIME_BUDGET_SECONDS = 20


@shared_task(name="endpoints.enrich")
def enrich() -> None:
    """Update discovered endpoints, vendors, profiles and groups by rule, for all tenants with changes."""
    deadline = time.monotonic() + _TIME_BUDGET_SECONDS
    with session_scope(PlatformScope()) as session:
        waiting = [TenantId(tenant_id) for tenant_id in enrichment.list_tenants(session)]
    run_in_turns(
        waiting,
        lambda session, tenant_id: enrich_batch(session, tenant_id=tenant_id) > 0,
        until=deadline,
        complaint="cannot enrich its endpoints",
    )


@shared_task(name="endpoints.expire", base=UpkeepTask)
def expire() -> None:
    """Delete discovered endpoints that were not seen for a long time."""
    for tenant in iterate_tenants():
        while _expire_batch(TenantId(tenant.id)) == DISCOVERED_BATCH_SIZE:
            continue


@shared_task(name="endpoints.record_expired")
def record_expired() -> None:
    """Record once for each endpoint that its approval has expired."""
    deadline = time.monotonic() + _TIME_BUDGET_SECONDS
    while time.monotonic() < deadline:
        with session_scope(PlatformScope()) as session:
            if not record_expired_approvals(session):
                return


def _expire_batch(tenant_id: TenantId) -> int:
    with session_scope(TenantScope(tenant_id)) as session:
        return expire_discovered(session, tenant_id=tenant_id)
