"""Hits of each rule by policy version and UTC day. Hits are summed up for each batch, to write fewer rows."""

from collections.abc import Iterable

from nac.cellformat.journal.records import AuthRecord
from radius.agent.copy_format import copy_line

_DAY_MICROSECONDS = 86_400_000_000

# Tenant id, policy id, version, rule ("" for the fallback), days since 1970-01-01.
HitKey = tuple[str, str, int, str, int]


class HitCounts:
    def __init__(self) -> None:
        # Number of decisions, and time of the last decision in epoch microseconds.
        self._counted: dict[HitKey, tuple[int, int]] = {}

    def add(self, record: AuthRecord) -> None:
        # Without a policy id, no policy decided: invalid credentials, no site, or no published policy.
        if record.policy_id:
            key = (
                record.tenant_id,
                record.policy_id,
                record.policy_version,
                record.rule_id,
                record.at // _DAY_MICROSECONDS,
            )
            count, last = self._counted.get(key, (0, 0))
            self._counted[key] = (count + 1, max(last, record.at))

    def lines(self) -> Iterable[str]:
        for (tenant, policy, version, rule, day), (count, last) in self._counted.items():
            yield copy_line(tenant, policy, str(version), rule, str(day), str(count), str(last))


HITS_TABLE = """
CREATE TEMPORARY TABLE shipped_hits (
    tenant_id uuid, policy_id uuid, version int, rule_id text, day int, hits bigint, last_at bigint
) ON COMMIT DELETE ROWS
"""
HITS_COPY = "COPY shipped_hits FROM STDIN (NULL '')"
# In the order of keys, so that two cells of one tenant do not deadlock.
HITS_MERGE = """
INSERT INTO policy_hits AS known (tenant_id, policy_id, version, rule_id, day, hits, last_at)
SELECT tenant_id, policy_id, version, coalesce(rule_id, ''), date '1970-01-01' + day, hits,
    to_timestamp(last_at::float8 / 1e6)
FROM shipped_hits
ORDER BY tenant_id, policy_id, version, rule_id, day
ON CONFLICT (tenant_id, policy_id, version, rule_id, day) DO UPDATE SET
    hits = known.hits + excluded.hits, last_at = greatest(known.last_at, excluded.last_at)
"""
