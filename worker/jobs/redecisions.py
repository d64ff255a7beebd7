"""Runs the re-decisions of live sessions after a change, and queues the resulting requests to NASes."""

import time
from random import SystemRandom

from celery import shared_task
from sqlalchemy import text
from sqlalchemy.orm import Session

from nac.kit.db import PlatformScope, TenantScope, session_scope
from nac.kit.errors import Conflict, Unavailable
from nac.kit.ids import TenantId
from nac.redecisions import completion, runner
from worker.task_classes import UpkeepTask
from worker.tenant_turns import iterate_tenants, run_in_turns

COLLECT = text("SELECT collect_redecision_marks()")
_WAITING = text("SELECT tenants_to_redecide()")
_WAITING_FOR_PERSON = text("SELECT tenants_with_waiting_redecisions()")
# Time limit of a run, so that no job occupies a worker process for long. The next run, a second later, continues.
_TIME_BUDGET_SECONDS = 20
_KEPT_DAYS = 30


@shared_task(name="redecisions.advance")
def advance() -> None:
    """Continue the re-decisions of all tenants: decide again about live sessions, and queue requests to NASes."""
    deadline = time.monotonic() + _TIME_BUDGET_SECONDS
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
        except Exception as exc:  # house-rule: reported after this transaction
            failed[tenant_id] = exc
            raise
        runner.clear_failure(session, tenant_id=tenant_id)
        return more

    # Random order, so that runs that exceed their time do not always skip the same tenants.
    run_in_turns(
        SystemRandom().sample(waiting, len(waiting)),
        turn,
        until=deadline,
        complaint="cannot re-decide its live sessions",
    )
    for tenant_id, exc in failed.items():
        with session_scope(TenantScope(tenant_id)) as session:
            runner.record_failure(session, tenant_id=tenant_id, detail=f"{type(exc).__name__}.")


@shared_task(name="redecisions.clear_waiting")
def clear_waiting() -> None:
    """End a re-decision that waits for a person's approval, if all sessions of the re-decision have ended."""
    with session_scope(PlatformScope()) as session:
        waiting = [TenantId(tenant_id) for tenant_id in session.scalars(_WAITING_FOR_PERSON)]
    run_in_turns(
        SystemRandom().sample(waiting, len(waiting)),
        lambda session, tenant_id: completion.settle_waiting(session, tenant_id=tenant_id),
        until=time.monotonic() + _TIME_BUDGET_SECONDS,
        complaint="cannot clear its waiting approvals",
    )


@shared_task(name="redecisions.prune", base=UpkeepTask)
def prune() -> None:
    for tenant in iterate_tenants():
        with session_scope(TenantScope(TenantId(tenant.id))) as session:
            runner.prune(session, tenant_id=TenantId(tenant.id), days=_KEPT_DAYS)
