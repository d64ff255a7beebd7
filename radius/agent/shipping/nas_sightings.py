"""Time of the last request of each registered NAS. The agent writes it at most once a minute for each NAS."""

from collections.abc import Mapping

import psycopg

from nac.cellformat.journal.records import AccountingRecord, AuthRecord
from radius.agent.shipping.sightings import QUIET_MICROSECONDS

# The times of more NASes are not remembered. A forgotten NAS costs one more write.
_MAX_REMEMBERED = 100_000

# In the order of keys, so that two batches do not deadlock. The NAS may have been deleted meanwhile.
_MERGE = """
INSERT INTO nas_sightings AS known (nas_id, tenant_id, last_seen_at)
SELECT n.id, n.tenant_id, to_timestamp(s.at::float8 / 1e6)
FROM unnest(%s::uuid[], %s::uuid[], %s::bigint[]) s (nas_id, tenant_id, at)
JOIN nases n ON n.tenant_id = s.tenant_id AND n.id = s.nas_id
ORDER BY n.id
ON CONFLICT (nas_id) DO UPDATE SET last_seen_at = greatest(known.last_seen_at, excluded.last_seen_at)
"""


class RecentNases:
    """Time of the last write for each NAS in epoch microseconds. Changes only after the commit."""

    def __init__(self) -> None:
        self.written: dict[str, int] = {}

    def batch(self) -> "NasSightings":
        return NasSightings(self.written)

    def remember(self, batch: "NasSightings") -> None:
        if len(self.written) > _MAX_REMEMBERED:
            self.written.clear()
        self.written.update((nas_id, at) for nas_id, (_, at) in batch.seen.items())


class NasSightings:
    def __init__(self, written: Mapping[str, int]) -> None:
        self._written = written
        # Tenant id, and time of the last request in epoch microseconds, by id of the NAS.
        self.seen: dict[str, tuple[str, int]] = {}

    def add(self, record: AuthRecord | AccountingRecord) -> None:
        nas_id, at = record.nas_id, record.at
        if nas_id and at - self._written.get(nas_id, 0) >= QUIET_MICROSECONDS:
            known = self.seen.get(nas_id)
            if known is None or known[1] < at:
                self.seen[nas_id] = (record.tenant_id, at)

    def write(self, cursor: psycopg.Cursor) -> None:
        """Write the times. Call this method last in a batch.

        Both streams write these rows. A batch that waits for a row of this table then holds no row for which another
        batch can wait.
        """
        if self.seen:
            rows = ((nas_id, tenant, at) for nas_id, (tenant, at) in self.seen.items())
            cursor.execute(_MERGE, tuple(map(list, zip(*rows, strict=True))))
