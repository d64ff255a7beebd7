"""Estimates the size of each tenant's logs by day. The database function measure_log measures changed partitions."""

import time
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta

from sqlalchemy import Engine, func, select, text

from nac.kit.db import PlatformScope, session_scope
from nac.logs.log_tables import LogName

# Minimum time between two measurements of a partition that grows.
MEASURE_INTERVAL = timedelta(hours=1)

_PARTITIONS = text("""
SELECT l.log, to_date(right(c.relname, 8), 'YYYYMMDD') AS day
FROM unnest(CAST(:logs AS text[])) l (log), log_table(l.log) t, pg_class p, pg_inherits i, pg_class c
WHERE t.partitioned AND p.relname = t.parent AND p.relnamespace = 'public'::regnamespace AND i.inhparent = p.oid
    AND c.oid = i.inhrelid AND c.relname ~ '_[0-9]{8}$'
ORDER BY day
""")
# This query finds changed partitions. The day is NULL for the default partition and for tables without partitions.
_CHANGED = text("""
WITH places AS (
    SELECT l.log, to_date(right(c.relname, 8), 'YYYYMMDD') AS day, c.oid
    FROM unnest(CAST(:logs AS text[])) l (log), log_table(l.log) t, pg_class p, pg_inherits i, pg_class c
    WHERE t.partitioned AND p.relname = t.parent AND p.relnamespace = 'public'::regnamespace AND i.inhparent = p.oid
        AND c.oid = i.inhrelid AND c.relname ~ '_[0-9]{8}$'
    UNION ALL
    SELECT l.log, NULL, c.oid
    FROM unnest(CAST(:logs AS text[])) l (log), log_table(l.log) t, pg_class c
    WHERE c.relname = CASE WHEN t.partitioned THEN t.parent || '_default' ELSE t.parent END
        AND c.relnamespace = 'public'::regnamespace
)
SELECT p.log, p.day FROM places p
LEFT JOIN log_measures m ON m.log = p.log AND m.day = coalesce(p.day, '0001-01-01')
WHERE m.log IS NULL OR (m.measured_at <= :before AND m.inserted <> pg_stat_get_tuples_inserted(p.oid))
ORDER BY p.day DESC NULLS FIRST, p.log
""")


def list_partitions(logs: Sequence[LogName], *, engine: Engine | None = None) -> list[tuple[LogName, date]]:
    """Return the log and day of each partition, oldest day first."""
    with session_scope(PlatformScope(), engine=engine) as session:
        return [(row.log, row.day) for row in session.execute(_PARTITIONS, {"logs": list(logs)})]


def measure_logs(
    logs: Sequence[LogName],
    *,
    now: datetime,
    seconds: float,
    every: timedelta = MEASURE_INTERVAL,
    engine: Engine | None = None,
) -> int:
    """Measure changed partitions for about `seconds`. Returns the number of measured partitions.

    Requires the database role admit_worker. Each measurement is one transaction. If the time is not sufficient, the
    next run continues. Retention deletes nothing from partitions that were never measured.
    """
    deadline = time.monotonic() + seconds
    with session_scope(PlatformScope(), engine=engine) as session:
        parameters = {"logs": list(logs), "before": now.astimezone(UTC) - every}
        changed = session.execute(_CHANGED, parameters).all()
    for number, (log, day) in enumerate(changed):
        if time.monotonic() > deadline:
            return number
        with session_scope(PlatformScope(), engine=engine) as session:
            session.execute(select(func.measure_log(log, day)))
    return len(changed)
