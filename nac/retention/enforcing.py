"""One turn of retention: measure, warn, order exports, drop partitions, delete rows. As admit_worker.

May be run again, twice at a time, and killed anywhere: what is to go is found again from the rows themselves.
"""

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from random import SystemRandom

from sqlalchemy import Engine, func, select
from sqlalchemy.orm import Session

from nac.db import PlatformScope, TenantScope, session_scope
from nac.errors import Unavailable
from nac.exports import standing
from nac.ids import TenantId
from nac.models import Tenant
from nac.retention import deleting, dropping, measuring, notices, plan
from nac.retention.deleting import Window
from nac.retention.logs import EXPORTED, LEAST_DAYS, LOG_NAMES
from nac.retention.plan import TenantPlan

_log = logging.getLogger(__name__)
# Of the bytes that the database may have: from then on budgets are enforced at once.
DANGER_AT = 0.95
_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Enforced:
    measured: int
    dropped: int
    deleted: int


def enforce(
    *,
    now: datetime,
    window: Window,
    seconds: float,
    database_max_bytes: int = 0,
    measure_every: timedelta = measuring.EVERY,
    engine: Engine | None = None,
) -> Enforced:
    """One turn, for about `seconds`. `database_max_bytes`: what the database may have, 0 for no limit."""
    deadline = time.monotonic() + seconds
    measured = measuring.measure(LOG_NAMES, now=now, seconds=seconds / 2, every=measure_every, engine=engine)
    plans, danger = _plans(now, database_max_bytes, engine)
    dropped = dropping.drop(plans, now=now, seconds=deadline - time.monotonic(), engine=engine)
    open_now = [each for each in plans if danger or window.is_open(each, now)]
    deleted = deleting.delete(
        SystemRandom().sample(open_now, len(open_now)),
        now=now,
        seconds=deadline - time.monotonic(),
        busy=dropped.busy,
        engine=engine,
    )
    return Enforced(measured, len(dropped.days), deleted)


def _plans(now: datetime, database_max_bytes: int, engine: Engine | None) -> tuple[list[TenantPlan], bool]:
    """Of every tenant, and whether the database is nearly as large as it may be."""
    with session_scope(PlatformScope(), engine=engine) as session:
        limits = plan.load_limits(session)
        size = _database_bytes(session) if database_max_bytes else 0
        tenants: Sequence[TenantId] = session.scalars(select(Tenant.id)).all()
    danger = bool(size) and size > DANGER_AT * database_max_bytes
    if danger:
        _log.error("the database has %d of %d bytes: budgets are enforced without warning", size, database_max_bytes)
    plans = []
    for tenant_id in tenants:
        try:
            with session_scope(TenantScope(tenant_id), engine=engine) as session:
                found = plan.load(session, tenant_id=tenant_id, now=now, limits=limits, danger=danger)
                for notice in notices.refresh(session, found, now=now):
                    _log.warning("tenant %s, log %s: %s", tenant_id, notice.log, notice.detail)
                _order_exports(session, found)
        except Unavailable:
            raise
        except Exception:  # house-rule: nothing of this tenant goes; the others' logs are looked after
            _log.exception("what is kept of the logs of tenant %s cannot be worked out", tenant_id)
            continue
        plans.append(found)
    return plans, danger


def _database_bytes(session: Session) -> int:
    size: int = session.scalars(select(func.pg_database_size(func.current_database()))).one()
    return size


def _order_exports(session: Session, found: TenantPlan) -> None:
    for name in EXPORTED:
        log = found.logs[name]
        if log.export_format is not None:
            until = min(log.keep_from + standing.LEAD_DAYS * _DAY, log.today - LEAST_DAYS * _DAY)
            days = [day for day in log.sizes if day < until]
            standing.order(session, found.tenant_id, name, days, format=log.export_format)
