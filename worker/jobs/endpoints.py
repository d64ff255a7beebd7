"""Endpoints: what sightings tell of them, and what is forgotten."""

import time

from celery import shared_task

from nac.db import PlatformScope, TenantScope, session_scope
from nac.endpoints import work
from nac.endpoints.discovery import BATCH, expire_discovered
from nac.endpoints.enrichment import enrich as enrich_tenant
from nac.endpoints.expiry import note_expired
from nac.errors import Unavailable
from nac.ids import TenantId
from worker.turns import all_tenants, take_turns

# What is left then is gone on with a second later, so that no job holds a worker for long.
_SECONDS = 20


@shared_task(name="endpoints.enrich", ignore_result=True)
def enrich() -> None:
    """Discovered endpoints, vendors, profiles and groups by rule, of all tenants where something changed."""
    deadline = time.monotonic() + _SECONDS
    with session_scope(PlatformScope()) as session:
        waiting = [TenantId(tenant_id) for tenant_id in work.tenants(session)]
    take_turns(
        waiting,
        lambda session, tenant_id: enrich_tenant(session, tenant_id=tenant_id) > 0,
        until=deadline,
        complaint="what is found out about its endpoints cannot be worked out",
    )


@shared_task(
    name="endpoints.expire", autoretry_for=(Unavailable,), retry_backoff=True, retry_backoff_max=600, max_retries=5
)
def expire() -> None:
    """Forget discovered endpoints that were not seen for long."""
    for tenant in all_tenants():
        while _expire_batch(TenantId(tenant.id)) == BATCH:
            continue


@shared_task(name="endpoints.tell_expired", ignore_result=True)
def tell_expired() -> None:
    """Note the approvals that have ended."""
    deadline = time.monotonic() + _SECONDS
    while time.monotonic() < deadline:
        with session_scope(PlatformScope()) as session:
            if not note_expired(session):
                return


def _expire_batch(tenant_id: TenantId) -> int:
    with session_scope(TenantScope(tenant_id)) as session:
        return expire_discovered(session, tenant_id=tenant_id)
