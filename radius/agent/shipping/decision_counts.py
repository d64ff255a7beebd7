"""Counts of decisions by minute and hour, for charts. The batch's transaction adds them to the stored counts.

Both periods are counted here. So a reader of hours need not add up minutes, and old minutes can simply be deleted.
"""

from collections import Counter
from collections.abc import Sequence

import psycopg

from nac.cellformat.journal.records import AuthRecord
from nac.models.log import HOUR_SECONDS, MINUTE_SECONDS

_MINUTE_MICROSECONDS = MINUTE_SECONDS * 1_000_000

# In the order of keys, so that two cells of one tenant do not deadlock.
_MERGE_DECISIONS = """
INSERT INTO decision_counts AS known (tenant_id, seconds, start_at, permitted, quarantined, rejected)
SELECT c.tenant_id, c.seconds, to_timestamp(c.start_at), c.permitted, c.quarantined, c.rejected
FROM unnest(%s::uuid[], %s::int[], %s::float8[], %s::bigint[], %s::bigint[], %s::bigint[])
    c (tenant_id, seconds, start_at, permitted, quarantined, rejected)
ORDER BY c.tenant_id, c.seconds, c.start_at
ON CONFLICT (tenant_id, seconds, start_at) DO UPDATE SET
    permitted = known.permitted + excluded.permitted, quarantined = known.quarantined + excluded.quarantined,
    rejected = known.rejected + excluded.rejected
"""
_MERGE_REJECTS = """
INSERT INTO reject_counts AS known (tenant_id, seconds, start_at, reason, rejected)
SELECT c.tenant_id, c.seconds, to_timestamp(c.start_at), c.reason, c.rejected
FROM unnest(%s::uuid[], %s::int[], %s::float8[], %s::text[], %s::bigint[])
    c (tenant_id, seconds, start_at, reason, rejected)
ORDER BY c.tenant_id, c.seconds, c.start_at, c.reason
ON CONFLICT (tenant_id, seconds, start_at, reason) DO UPDATE SET rejected = known.rejected + excluded.rejected
"""
_PERMITTED, _QUARANTINED, _REJECTED = range(3)

# Tenant id, length of the period in seconds, and start of the period in epoch seconds.
_Period = tuple[str, int, int]


class DecisionCounts:
    def __init__(self) -> None:
        # Number of decisions by tenant id, minutes since 1970, and the fields that make the outcome. The outcome itself
        # is found when the batch is written, because `add` runs for each decision.
        self._counted: dict[tuple[str, int, bool, str, str, str], int] = {}

    def add(self, record: AuthRecord) -> None:
        minute = record.at // _MINUTE_MICROSECONDS
        key = (record.tenant_id, minute, record.permitted, record.verdict, record.monitored, record.reason)
        # `suppressed` is the number of earlier rejects that have no record.
        self._counted[key] = self._counted.get(key, 0) + 1 + record.suppressed

    def write(self, cursor: psycopg.Cursor) -> None:
        decisions: dict[_Period, list[int]] = {}
        rejects: Counter[tuple[*_Period, str]] = Counter()
        for (tenant, minute, permitted, verdict, monitored, reason), number in self._counted.items():
            at = minute * MINUTE_SECONDS
            # In monitor mode, the verdict is not enforced.
            admitted = _QUARANTINED if verdict == "quarantine" and not monitored else _PERMITTED
            for seconds in (MINUTE_SECONDS, HOUR_SECONDS):
                period = (tenant, seconds, at - at % seconds)
                decisions.setdefault(period, [0, 0, 0])[admitted if permitted else _REJECTED] += number
                if not permitted:
                    rejects[*period, reason] += number
        _merge(cursor, _MERGE_DECISIONS, [(*period, *numbers) for period, numbers in decisions.items()])
        _merge(cursor, _MERGE_REJECTS, [(*key, number) for key, number in rejects.items()])


def _merge(cursor: psycopg.Cursor, statement: str, rows: Sequence[tuple[str | int, ...]]) -> None:
    """Execute the statement with an array for each column of the rows."""
    if rows:
        cursor.execute(statement, tuple(map(list, zip(*rows, strict=True))))
