"""Endpoints: what sightings tell of them, and what is forgotten."""

import logging
import time

from celery import shared_task

from nac.db import PlatformScope, TenantScope, session_scope
from nac.endpoints import work
from nac.endpoints.discovery import BATCH, expire_discovered
from nac.endpoints.enrichment import enrich as enrich_tenant
from nac.errors import Conflict, Unavailable
from nac.ids import TenantId
from nac.tenants import service as tenants

_log = logging.getLogger(__name__)

# What is left then is gone on with a second later, so that no job holds a worker for long.
_SECONDS = 20


@shared_task(name="endpoints.enrich", ignore_result=True)
def enrich() -> None:
    """Discovered endpoints, vendors, profiles and groups by rule, of all tenants where something changed."""
    deadline = time.monotonic() + _SECONDS
    with session_scope(PlatformScope()) as session:
        waiting = [TenantId(tenant_id) for tenant_id in work.tenants(session)]
    # A batch for each in turn: a large tenant does not hold up the others.
    while waiting and time.monotonic() < deadline:
        waiting = [tenant_id for tenant_id in waiting if _enrich_batch(tenant_id)]


def _enrich_batch(tenant_id: TenantId) -> bool:
    try:
        with session_scope(TenantScope(tenant_id)) as session:
            return enrich_tenant(session, tenant_id=tenant_id) > 0
    except Conflict:
        # Somebody changed the same rows; it is all still to be done, a second later.
        return False
    except Unavailable:
        raise
    except Exception:  # house-rule: whatever is wrong with one tenant's rows, the others' are looked at
        _log.exception("what is found out about endpoints of tenant %s cannot be worked out", tenant_id)
        return False


@shared_task(
    name="endpoints.expire", autoretry_for=(Unavailable,), retry_backoff=True, retry_backoff_max=600, max_retries=5
)
def expire() -> None:
    """Forget discovered endpoints that were not seen for long."""
    after = ""
    while True:
        with session_scope(PlatformScope()) as session:
            page = tenants.list_tenants(session, after_slug=after)
        for tenant in page:
            while _expire_batch(TenantId(tenant.id)) == BATCH:
                continue
        if not page:
            return
        after = page[-1].slug


def _expire_batch(tenant_id: TenantId) -> int:
    with session_scope(TenantScope(tenant_id)) as session:
        return expire_discovered(session, tenant_id=tenant_id)
