"""Live sessions that are decided anew after a change."""

import time
from random import SystemRandom

from celery import shared_task
from sqlalchemy import text
from sqlalchemy.orm import Session

from nac.db import PlatformScope, TenantScope, session_scope
from nac.errors import Conflict, Unavailable
from nac.ids import TenantId
from nac.redecisions import completion, failures, runner
from worker.turns import all_tenants, take_turns

COLLECT = text("SELECT collect_redecision_marks()")
_WAITING = text("SELECT tenants_to_redecide()")
_HELD = text("SELECT tenants_with_waiting_redecisions()")
# What is left then is gone on with a second later, so that no job holds a worker for long.
_SECONDS = 20
_KEPT_DAYS = 30


@shared_task(name="redecisions.advance", ignore_result=True)
def advance() -> None:
    """What changed, of all tenants: which sessions would be decided otherwise, and the requests to their NASes."""
    deadline = time.monotonic() + _SECONDS
    with session_scope(PlatformScope()) as session:
        session.execute(COLLECT)
    with session_scope(PlatformScope()) as session:
        waiting = [TenantId(tenant_id) for tenant_id in session.scalars(_WAITING)]
    failed: dict[TenantId, Exception] = {}

    def turn(session: Session, tenant_id: TenantId) -> bool:
        try:
            more = runner.advance_tenant(session, tenant_id=tenant_id)
        except (Conflict, Unavailable):
            raise
        except Exception as exc:  # house-rule: told of when this transaction is over
            failed[tenant_id] = exc
            raise
        failures.clear_failure(session, tenant_id=tenant_id)
        return more

    # In no order: whoever is last when the time is over is another one the next time.
    take_turns(
        SystemRandom().sample(waiting, len(waiting)),
        turn,
        until=deadline,
        complaint="its live sessions cannot be decided anew",
    )
    for tenant_id, exc in failed.items():
        with session_scope(TenantScope(tenant_id)) as session:
            failures.record_failure(session, tenant_id=tenant_id, detail=f"{type(exc).__name__}.")


@shared_task(name="redecisions.clear_waiting", ignore_result=True)
def clear_waiting() -> None:
    """What waits for a person about sessions that are over waits no more, of all tenants."""
    with session_scope(PlatformScope()) as session:
        waiting = [TenantId(tenant_id) for tenant_id in session.scalars(_HELD)]
    take_turns(
        SystemRandom().sample(waiting, len(waiting)),
        lambda session, tenant_id: completion.settle_waiting(session, tenant_id=tenant_id),
        until=time.monotonic() + _SECONDS,
        complaint="what waits for a person cannot be looked at",
    )


@shared_task(
    name="redecisions.prune", autoretry_for=(Unavailable,), retry_backoff=True, retry_backoff_max=600, max_retries=5
)
def prune() -> None:
    """Delete the re-decisions of long ago."""
    for tenant in all_tenants():
        with session_scope(TenantScope(TenantId(tenant.id))) as session:
            runner.prune(session, tenant_id=TenantId(tenant.id), days=_KEPT_DAYS)
