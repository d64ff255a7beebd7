"""One run of retention: measure logs, warn users, create exports, drop partitions and delete rows.

Requires the database role admit_worker. Runs can be repeated and can overlap. A run can stop at any point, because the
next run finds the remaining expired rows.
"""

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from random import SystemRandom

from sqlalchemy import Engine, func, select
from sqlalchemy.orm import Session

from nac.core import alarms
from nac.kit.db import PlatformScope, TenantScope, session_scope
from nac.kit.errors import Unavailable
from nac.kit.ids import TenantId
from nac.kit.text_format import format_size
from nac.logs.exports import standing_exports
from nac.logs.exports.export_folder import ExportFolder
from nac.logs.log_tables import EXPORTED_LOGS, LOG_NAMES, MIN_DAYS
from nac.logs.retention import measurement, notices, partition_drop, plan, row_deletion
from nac.logs.retention.clock import ClockReading
from nac.logs.retention.plan import TenantPlan
from nac.logs.retention.row_deletion import DeletionWindow
from nac.models import Tenant

_log = logging.getLogger(__name__)
# If the database uses more than this share of its maximum size, budgets apply without a notice period.
DANGER_SHARE = 0.95
NEARLY_FULL = "database-nearly-full"
# Maximum number of days whose rows one run deletes, per log and tenant. More than 1, so that retention catches up after
# an outage. Small, so that an administrator can notice a mistake before many days are deleted.
MAX_DAYS_PER_TURN = 4
_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class EnforcementResult:
    measured: int
    dropped: int
    deleted: int


def enforce_retention(
    *,
    at: ClockReading,
    window: DeletionWindow,
    seconds: float,
    folder: ExportFolder,
    database_max_bytes: int = 0,
    most_days: int = MAX_DAYS_PER_TURN,
    measure_every: timedelta = measurement.MEASURE_INTERVAL,
    engine: Engine | None = None,
) -> EnforcementResult:
    """Run retention once, for about `seconds`.

    `folder` contains the exports. `database_max_bytes` is the maximum size of the database; 0 for no limit. `most_days`
    limits the deleted days per log and tenant. If the clock is not trusted, the run deletes nothing, and announced
    reductions of retention do not take effect.
    """
    now, deadline = at.now, time.monotonic() + seconds
    measured = measurement.measure_logs(LOG_NAMES, now=now, seconds=seconds / 2, every=measure_every, engine=engine)
    danger = _is_in_danger(now, database_max_bytes, engine)
    if not at.is_trusted:
        _log.error("the clock is not trusted: nothing is deleted")
        return EnforcementResult(measured, 0, 0)
    plans = _load_plans(now, danger, engine)
    dropped = partition_drop.drop_partitions(
        plans, now=now, seconds=deadline - time.monotonic(), folder=folder, most_days=most_days, engine=engine
    )
    open_now = [each for each in plans if danger or window.is_open(each, now)]
    deleted = row_deletion.delete_rows(
        SystemRandom().sample(open_now, len(open_now)),
        now=now,
        seconds=deadline - time.monotonic(),
        folder=folder,
        most_days=most_days,
        busy=dropped.busy,
        engine=engine,
    )
    return EnforcementResult(measured, len(dropped.days), deleted)


def _is_in_danger(now: datetime, most: int, engine: Engine | None) -> bool:
    """Return whether the database is nearly full. Raises or clears the alarm NEARLY_FULL."""
    with session_scope(PlatformScope(), engine=engine) as session:
        size: int = session.scalars(select(func.pg_database_size(func.current_database()))).one() if most else 0
        if size <= DANGER_SHARE * most:
            alarms.clear_alarm(session, code=NEARLY_FULL)
            return False
        detail = (
            f"The database has {format_size(size)} of {format_size(most)}: log budgets now apply without"
            " warning. Increase the limit (ADMIT_DATABASE_MAX_BYTES), or lower the limits of"
            " retention."
        )
        alarms.raise_alarm(session, code=NEARLY_FULL, detail=detail, now=now)
    _log.error(detail)
    return True


def _load_plans(now: datetime, danger: bool, engine: Engine | None) -> list[TenantPlan]:
    """Return the retention plans of all tenants. If `danger` is true, budgets apply without a notice period."""
    with session_scope(PlatformScope(), engine=engine) as session:
        limits = plan.load_limits(session)
        tenants: Sequence[TenantId] = session.scalars(select(Tenant.id)).all()
    plans = []
    for tenant_id in tenants:
        try:
            with session_scope(TenantScope(tenant_id), engine=engine) as session:
                found = plan.load_plan(session, tenant_id=tenant_id, now=now, limits=limits, danger=danger)
                standing_exports.update_presence(
                    session, tenant_id, {name: log.sizes.keys() for name, log in found.logs.items()}, now
                )
                for notice in notices.refresh_notices(session, found, now=now):
                    _log.warning("tenant %s, log %s: %s", tenant_id, notice.log, notice.detail)
                _order_exports(session, found, now)
        except Unavailable:
            raise
        except Exception:  # house-rule: a fault of one tenant must not stop the others
            _log.exception("cannot calculate the retention of tenant %s", tenant_id)
            continue
        plans.append(found)
    return plans


def _order_exports(session: Session, found: TenantPlan, now: datetime) -> None:
    over = []
    for name in EXPORTED_LOGS:
        log = found.logs[name]
        if log.export_format is not None:
            due = max(log.keep_from, log.wanted_from) + standing_exports.LEAD_DAYS * _DAY
            until = min(due, log.today - MIN_DAYS * _DAY)
            days = [day for day in log.sizes if day < until]
            standing_exports.create_jobs(session, found.tenant_id, name, days, format=log.export_format)
        elif not log.terms.export:
            over.append(name)
    if over:
        standing_exports.cancel_jobs(session, found.tenant_id, over, now=now)
