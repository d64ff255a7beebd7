"""Live sessions that are decided anew after a change."""

import logging
import time
from random import SystemRandom

from celery import shared_task
from sqlalchemy import text

from nac.db import PlatformScope, TenantScope, session_scope
from nac.errors import Conflict, Unavailable
from nac.ids import TenantId
from nac.redecisions import running
from nac.tenants import service as tenants

_log = logging.getLogger(__name__)

_COLLECT = text("SELECT collect_redecision_marks()")
_WAITING = text("SELECT tenants_to_redecide()")
# What is left then is gone on with a second later, so that no job holds a worker for long.
_SECONDS = 20
_KEPT_DAYS = 30


@shared_task(name="redecisions.advance", ignore_result=True)
def advance() -> None:
    """What changed, of all tenants: which sessions would be decided otherwise, and the requests to their NASes."""
    deadline = time.monotonic() + _SECONDS
    with session_scope(PlatformScope()) as session:
        session.execute(_COLLECT)
    with session_scope(PlatformScope()) as session:
        waiting = [TenantId(tenant_id) for tenant_id in session.scalars(_WAITING)]
    # A page for each in turn, whoever is first: a large tenant does not hold up the others.
    waiting = SystemRandom().sample(waiting, len(waiting))
    while waiting and time.monotonic() < deadline:
        waiting = [tenant_id for tenant_id in waiting if _advance(tenant_id)]


def _advance(tenant_id: TenantId) -> bool:
    try:
        with session_scope(TenantScope(tenant_id)) as session:
            return running.advance(session, tenant_id=tenant_id)
    except Conflict:
        # Somebody changed the same rows; it is all still to be done, a second later.
        return False
    except Unavailable:
        raise
    except Exception:  # house-rule: whatever is wrong with one tenant's rows, the others' are looked at
        _log.exception("live sessions of tenant %s cannot be decided anew", tenant_id)
        return False


@shared_task(
    name="redecisions.prune", autoretry_for=(Unavailable,), retry_backoff=True, retry_backoff_max=600, max_retries=5
)
def prune() -> None:
    """Delete the re-decisions of long ago."""
    after = ""
    while True:
        with session_scope(PlatformScope()) as session:
            page = tenants.list_tenants(session, after_slug=after)
        for tenant in page:
            with session_scope(TenantScope(TenantId(tenant.id))) as session:
                running.prune(session, tenant_id=TenantId(tenant.id), days=_KEPT_DAYS)
        if not page:
            return
        after = page[-1].slug
