"""Days that nobody wants any more go as a whole: their partition is dropped."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime

from sqlalchemy import Engine, func, select

from nac.audit import service as audit
from nac.db import PlatformScope, TenantScope, session_scope
from nac.exports import standing
from nac.retention import measuring
from nac.retention.logs import PARTITIONED, LogName
from nac.retention.notices import ACTOR
from nac.retention.plan import TenantPlan


@dataclass(slots=True)
class Dropped:
    days: list[tuple[LogName, date]] = field(default_factory=list)
    # Somebody read or wrote for too long; they are gone at one of the next turns.
    busy: set[tuple[LogName, date]] = field(default_factory=set)


def drop(plans: Sequence[TenantPlan], *, now: datetime, seconds: float, engine: Engine | None = None) -> Dropped:
    """Drop what all of these tenants gave up, for about `seconds`.

    The database looks itself whether others have rows there.
    """
    deadline = time.monotonic() + seconds
    dropped = Dropped()
    for log, day in _given_up(plans, engine):
        if time.monotonic() > deadline or any(busy == log for busy, _ in dropped.busy):
            # Each try makes the shippers wait for a moment.
            dropped.busy.add((log, day))
            continue
        if not all(_may_go(plan, log, day, now, engine) for plan in plans):
            continue
        with session_scope(PlatformScope(), engine=engine) as session:
            ids = [plan.tenant_id for plan in plans if plan.logs[log].gives_up(day)]
            outcome = session.scalar(select(func.drop_log_partition(log, day, ids)))
        if outcome == "dropped":
            dropped.days.append((log, day))
            _tell(plans, log, day, engine)
        elif outcome == "busy":
            dropped.busy.add((log, day))
    return dropped


def _given_up(plans: Sequence[TenantPlan], engine: Engine | None) -> Iterator[tuple[LogName, date]]:
    """Partitions that no tenant which is known to have rows there wants."""
    last = {log: max((plan.logs[log].keep_from for plan in plans), default=None) for log in PARTITIONED}
    for log, day in measuring.partitions(PARTITIONED, engine=engine):
        until = last[log]
        if (
            until is not None
            and day < until
            and all(plan.logs[log].gives_up(day) for plan in plans if day in plan.logs[log].sizes)
        ):
            yield log, day


def _may_go(plan: TenantPlan, log: LogName, day: date, now: datetime, engine: Engine | None) -> bool:
    if plan.logs[log].released is None or day not in plan.logs[log].sizes:
        return True
    with session_scope(TenantScope(plan.tenant_id), engine=engine) as session:
        return standing.may_delete(session, plan.tenant_id, log, day, now=now, in_parts=False)


def _tell(plans: Sequence[TenantPlan], log: LogName, day: date, engine: Engine | None) -> None:
    for plan in plans:
        rows = plan.logs[log].rows.get(day)
        if rows and plan.logs[log].is_early(day):
            with session_scope(TenantScope(plan.tenant_id), engine=engine) as session:
                after = {"rows": rows, "estimate": True}
                audit.append(
                    session,
                    actor=ACTOR,
                    action="retention.delete-early",
                    target=f"{log} {day}",
                    tenant_id=plan.tenant_id,
                    after=after,
                )
