"""Drops log partitions of days whose rows no tenant keeps."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime

from sqlalchemy import Engine, func, select
from sqlalchemy.orm import Session

from nac.core.audit import service as audit
from nac.kit.db import PlatformScope, TenantScope, enter_tenant, session_scope
from nac.logs.exports import standing_exports
from nac.logs.exports.export_folder import ExportFolder
from nac.logs.log_tables import PARTITIONED_LOGS, LogName
from nac.logs.retention import measurement, repository
from nac.logs.retention.notices import RETENTION_ACTOR
from nac.logs.retention.plan import TenantPlan

# If a partition has more exported rows, retention deletes the rows instead of dropping the partition. The drop would
# check these rows under a lock, which would block new log records for several seconds.
MAX_SCANNED_ROWS = 5_000_000


@dataclass(slots=True)
class DroppedDays:
    days: list[tuple[LogName, date]] = field(default_factory=list)
    # Partitions that could not be locked in time. The next run tries again.
    busy: set[tuple[LogName, date]] = field(default_factory=set)


def drop_partitions(
    plans: Sequence[TenantPlan],
    *,
    now: datetime,
    seconds: float,
    folder: ExportFolder,
    most_days: int,
    engine: Engine | None = None,
) -> DroppedDays:
    """Drop partitions whose rows all tenants must delete, at most `most_days` per log. Takes about `seconds`.

    The database checks that a partition has no rows of other tenants, and no rows that must be exported first. `folder`
    contains the exports.
    """
    deadline = time.monotonic() + seconds
    dropped = DroppedDays()
    for log, day in _iter_given_up(plans, engine):
        if sum(each == log for each, _ in dropped.days) == most_days:
            continue
        if time.monotonic() > deadline or any(busy == log for busy, _ in dropped.busy):
            # Do not retry in this run, because each attempt blocks new log records for a moment.
            dropped.busy.add((log, day))
            continue
        outcome = _drop_partition(
            [plan for plan in plans if plan.logs[log].gives_up(day)], log, day, now, folder, engine
        )
        if outcome == "dropped":
            dropped.days.append((log, day))
        elif outcome == "busy":
            dropped.busy.add((log, day))
    return dropped


def _drop_partition(
    plans: Sequence[TenantPlan], log: LogName, day: date, now: datetime, folder: ExportFolder, engine: Engine | None
) -> str:
    exported = {}
    for plan in plans:
        if plan.logs[log].released is not None:
            with session_scope(TenantScope(plan.tenant_id), engine=engine) as session:
                exported[plan.tenant_id] = standing_exports.release_day(
                    session, plan.tenant_id, log, day, folder=folder, now=now
                )
    horizons = {tenant_id: released.rows_before for tenant_id, released in exported.items() if released is not None}
    given_up = [plan.tenant_id for plan in plans if exported.get(plan.tenant_id, True) is not None]
    if sum(plan.logs[log].rows.get(day, 0) for plan in plans if plan.tenant_id in horizons) > MAX_SCANNED_ROWS:
        return "wanted"
    with session_scope(PlatformScope(), engine=engine) as session:
        # Write the audit entries before the drop, because the log is locked from the drop until the commit.
        for plan in plans:
            if plan.logs[log].is_early(day):
                _audit_early_deletion(session, plan, log, day)
        outcome: str = session.scalars(
            select(func.drop_log_partition(log, day, given_up, list(horizons), list(horizons.values())))
        ).one()
        if outcome != "dropped":
            session.rollback()
    return outcome


def _iter_given_up(plans: Sequence[TenantPlan], engine: Engine | None) -> Iterator[tuple[LogName, date]]:
    """Yield the partitions whose rows all tenants must delete. Ignores tenants without measured rows on the day."""
    last = {log: max((plan.logs[log].keep_from for plan in plans), default=None) for log in PARTITIONED_LOGS}
    for log, day in measurement.list_partitions(PARTITIONED_LOGS, engine=engine):
        until = last[log]
        if (
            until is not None
            and day < until
            and all(plan.logs[log].gives_up(day) for plan in plans if day in plan.logs[log].sizes)
        ):
            yield log, day


def _audit_early_deletion(session: Session, plan: TenantPlan, log: LogName, day: date) -> None:
    enter_tenant(session, plan.tenant_id)
    rows = plan.logs[log].rows.get(day, 0) + repository.take_early_deletions(session, plan.tenant_id, log, day)
    if rows:
        audit.append(
            session,
            actor=RETENTION_ACTOR,
            action="retention.delete-early",
            target=f"{log} {day}",
            tenant_id=plan.tenant_id,
            after={"rows": rows, "estimate": True},
        )
