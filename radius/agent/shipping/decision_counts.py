"""Counts of decisions by minute and hour, for charts. The batch's transaction adds them to the stored counts.

Both periods are counted here. So a reader of hours need not add up minutes, and old minutes can simply be deleted.
"""

from collections import Counter

import psycopg

from nac.cellformat.journal.records import AuthRecord
from nac.models.log import HOUR_SECONDS, MINUTE_SECONDS

_MINUTE_MICROSECONDS = MINUTE_SECONDS * 1_000_000

# In the order of keys, so that two cells of one tenant do not deadlock.
_MERGE = """
INSERT INTO decision_counts AS known (tenant_id, seconds, start_at, outcome, reason, decisions)
SELECT c.tenant_id, c.seconds, to_timestamp(c.start_at), c.outcome, c.reason, c.decisions
FROM unnest(%s::uuid[], %s::int[], %s::float8[], %s::text[], %s::text[], %s::bigint[])
    c (tenant_id, seconds, start_at, outcome, reason, decisions)
ORDER BY c.tenant_id, c.seconds, c.start_at, c.outcome, c.reason
ON CONFLICT (tenant_id, seconds, start_at, outcome, reason) DO UPDATE SET
    decisions = known.decisions + excluded.decisions
"""


class DecisionCounts:
    def __init__(self) -> None:
        # Number of decisions by tenant id, minutes since 1970, outcome and reason.
        self._counted: Counter[tuple[str, int, str, str]] = Counter()

    def add(self, record: AuthRecord) -> None:
        key = (record.tenant_id, record.at // _MINUTE_MICROSECONDS, _outcome(record), record.reason)
        # `suppressed` is the number of earlier rejects that have no record.
        self._counted[key] += 1 + record.suppressed

    def write(self, cursor: psycopg.Cursor) -> None:
        if not self._counted:
            return
        totals: Counter[tuple[str, int, int, str, str]] = Counter()
        for (tenant, minute, outcome, reason), decisions in self._counted.items():
            at = minute * MINUTE_SECONDS
            for seconds in (MINUTE_SECONDS, HOUR_SECONDS):
                totals[tenant, seconds, at - at % seconds, outcome, reason] += decisions
        rows = ((*key, decisions) for key, decisions in totals.items())
        cursor.execute(_MERGE, tuple(map(list, zip(*rows, strict=True))))


def _outcome(record: AuthRecord) -> str:
    """Return what happened to the device. In monitor mode, the verdict is not enforced."""
    if not record.permitted:
        return "rejected"
    return "quarantined" if record.verdict == "quarantine" and not record.monitored else "permitted"
