"""External authorities: what they say of their certificates."""

import asyncio
import logging
import ssl

from celery import shared_task

from nac.certificates import external_status
from nac.certificates.web import Web
from nac.clock import utc_now
from nac.db import PlatformScope, session_scope
from nac.errors import Unavailable
from nac.identities.reach import Reach
from nac.identities.transport import Transport
from nac.ids import TenantId
from nac.settings import load_settings

_log = logging.getLogger(__name__)
_CONNECTIONS = 16


@shared_task(name="authorities.refresh_status", ignore_result=True)
def refresh_status() -> None:
    """Ask the external authorities of all tenants whatever is due."""
    with session_scope(PlatformScope()) as session:
        waiting = [TenantId(tenant_id) for tenant_id in external_status.tenants(session)]
    if waiting:
        asyncio.run(_refresh(waiting, load_settings().source_reach))


async def _refresh(waiting: list[TenantId], reach: Reach) -> None:
    async with Transport(reach, tls=ssl.create_default_context(), connections=_CONNECTIONS) as transport:
        web = Web(transport)
        for tenant_id in waiting:
            try:
                await external_status.refresh(tenant_id, web, now=utc_now())
            except Unavailable:
                raise
            except Exception:  # house-rule: whatever is wrong with one tenant's authorities, the others' are asked
                _log.exception("the status of external authorities of tenant %s cannot be fetched", tenant_id)
