"""Fetches the status of certificates from external authorities."""

import asyncio
import logging
import ssl
from random import SystemRandom

from celery import shared_task

from nac.certificates import external_status
from nac.kit.clock import utc_now
from nac.kit.db import PlatformScope, session_scope
from nac.kit.errors import Unavailable
from nac.kit.ids import TenantId
from nac.kit.outbound.http_client import HttpClient, OutboundTransport
from nac.kit.outbound.reach import OutboundReach
from nac.kit.settings import load_settings

_log = logging.getLogger(__name__)
_CONNECTIONS = 16
# Number of tenants that a run processes at a time. So slow servers delay few tenants, and a run stays below the time
# limit of jobs.
_MAX_CONCURRENT_TENANTS = 8
_TENANT_BUDGET_SECONDS = 60.0
_TIME_BUDGET_SECONDS = 200.0


@shared_task(name="authorities.refresh_status")
def refresh_status() -> None:
    """Fetch due statuses from the external authorities of all tenants. Does nothing while another run of this job is
    active.
    """
    with session_scope(PlatformScope()) as session:
        if not external_status.try_lock_refresh(session):
            return
        waiting = [TenantId(tenant_id) for tenant_id in external_status.list_tenants(session)]
        if waiting:
            asyncio.run(_refresh(waiting, load_settings().outbound_reach))


async def _refresh(waiting: list[TenantId], reach: OutboundReach) -> None:
    places = asyncio.Semaphore(_MAX_CONCURRENT_TENANTS)
    # Random order, so that runs that exceed their time do not always skip the same tenants.
    order = SystemRandom().sample(waiting, len(waiting))
    async with OutboundTransport(reach, tls=ssl.create_default_context(), connections=_CONNECTIONS) as transport:
        web = HttpClient(transport)
        try:
            async with asyncio.timeout(_TIME_BUDGET_SECONDS):
                await asyncio.gather(*(_refresh_one(tenant_id, web, places) for tenant_id in order))
        except TimeoutError:
            _log.warning(
                "external authorities take longer than %d s; the rest follows in the next run", _TIME_BUDGET_SECONDS
            )


async def _refresh_one(tenant_id: TenantId, web: HttpClient, places: asyncio.Semaphore) -> None:
    async with places:
        try:
            async with asyncio.timeout(_TENANT_BUDGET_SECONDS):
                await external_status.refresh_tenant_status(tenant_id, web, now=utc_now())
        except TimeoutError:
            _log.warning(
                "external authorities of tenant %s take longer than %d s; the rest follows in the next run",
                tenant_id,
                _TENANT_BUDGET_SECONDS,
            )
        except Unavailable:
            raise
        except Exception:  # house-rule: a failure of one tenant's authorities does not stop the others
            _log.exception("cannot fetch the status of external authorities of tenant %s", tenant_id)
