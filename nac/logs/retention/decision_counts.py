"""Deletes old counts of decisions: minutes after two days, hours after 90 days or with the authentication log.

The cells count each decision in its minute and in its hour, so the hour has the sum of its deleted minutes.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from sqlalchemy import CursorResult, Engine, TextClause, select, text

from nac.kit.db import PlatformScope, TenantScope, session_scope
from nac.kit.ids import TenantId
from nac.logs.log_tables import LogLimits, LogName
from nac.logs.retention import clock, plan
from nac.models import DecisionCount, RejectCount, Tenant
from nac.models.log import HOUR_SECONDS, HOURS_KEPT, MINUTE_SECONDS, MINUTES_KEPT

BATCH_ROWS = 5_000
# The outer conditions repeat the inner ones, because another row can have the ctid meanwhile.
_DELETE: Final = """
DELETE FROM :table
WHERE ctid = ANY (ARRAY(
        SELECT c.ctid FROM :table c
        WHERE c.tenant_id = :tenant AND c.seconds = :seconds AND c.start_at < :until ORDER BY c.start_at LIMIT :most
    ))
    AND tenant_id = :tenant AND seconds = :seconds AND start_at < :until
"""
_STATEMENTS: Final = [text(_DELETE.replace(":table", table.__tablename__)) for table in (DecisionCount, RejectCount)]


def prune_counts(*, engine: Engine | None = None, now: datetime | None = None, batch_rows: int = BATCH_ROWS) -> int:
    """Delete old counts of all tenants. Returns the number of deleted rows. Needs the role admit_worker.

    Each batch is a transaction. Deletes nothing if the database's clock is not trusted. You can repeat the function,
    and run it concurrently.
    """
    with session_scope(PlatformScope(), engine=engine) as session:
        if not clock.is_clock_trusted(session):
            return 0
        at = now or clock.read_database_time(session)
        limits = plan.load_limits(session)
        tenants: Sequence[TenantId] = session.scalars(select(Tenant.id)).all()
    return sum(_prune_tenant(tenant_id, at, limits, batch_rows, engine) for tenant_id in tenants)


def _prune_tenant(
    tenant_id: TenantId, now: datetime, limits: Mapping[LogName, LogLimits], batch_rows: int, engine: Engine | None
) -> int:
    with session_scope(TenantScope(tenant_id), engine=engine) as session:
        log = plan.load_plan(session, tenant_id=tenant_id, now=now, limits=limits).logs["auth"]
    oldest = max(log.oldest, log.today - HOURS_KEPT)
    untils = {MINUTE_SECONDS: now - MINUTES_KEPT, HOUR_SECONDS: plan.midnight(oldest)}
    return sum(
        _delete_rows(statement, {"tenant": tenant_id, "seconds": seconds, "until": until, "most": batch_rows}, engine)
        for seconds, until in untils.items()
        for statement in _STATEMENTS
    )


def _delete_rows(statement: TextClause, parameters: Mapping[str, Any], engine: Engine | None) -> int:
    deleted = 0
    while True:
        with session_scope(TenantScope(parameters["tenant"]), engine=engine) as session:
            result = session.execute(statement, parameters)
            assert isinstance(result, CursorResult)
        deleted += result.rowcount
        if result.rowcount < parameters["most"]:
            return deleted
