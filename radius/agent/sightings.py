"""When a MAC address was last seen, and if it was let in: written once a minute, or when the verdict changes."""

from collections import OrderedDict

from nac.journal.records import AuthRecord
from radius.agent.rows import copy_line

QUIET_MICROSECONDS = 60_000_000
# Beyond this the least recently seen are forgotten, which costs one more update each.
MAX_REMEMBERED = 100_000

Key = tuple[str, str]


class Sightings:
    """What was written for each MAC address of late; changed only by `remember`, after the commit."""

    def __init__(self) -> None:
        self._written: OrderedDict[Key, tuple[int, bool]] = OrderedDict()

    def is_due(self, record: AuthRecord) -> bool:
        written = self._written.get((record.tenant_id, record.mac))
        if written is None:
            return True
        at, permitted = written
        return record.permitted != permitted or record.at - at >= QUIET_MICROSECONDS

    def remember(self, seen: dict[Key, AuthRecord]) -> None:
        for key, record in seen.items():
            self._written[key] = (record.at, record.permitted)
            self._written.move_to_end(key)
        while len(self._written) > MAX_REMEMBERED:
            self._written.popitem(last=False)


SIGHTINGS_TABLE = """
CREATE TEMPORARY TABLE shipped_sightings (
    tenant_id uuid, mac macaddr, at bigint, site_id uuid, nas_id uuid, nas_port text, permitted boolean
) ON COMMIT DELETE ROWS
"""
SIGHTINGS_COPY = "COPY shipped_sightings FROM STDIN (NULL '')"
SIGHTINGS_MERGE = """
INSERT INTO endpoint_sightings AS known (tenant_id, mac, last_seen_at, site_id, nas_id, nas_port, permitted)
SELECT tenant_id, mac, to_timestamp(at::float8 / 1e6), site_id, nas_id, coalesce(nas_port, ''), permitted
FROM shipped_sightings
ON CONFLICT (tenant_id, mac) DO UPDATE SET
    last_seen_at = excluded.last_seen_at, site_id = excluded.site_id, nas_id = excluded.nas_id,
    nas_port = excluded.nas_port, permitted = excluded.permitted
WHERE known.last_seen_at <= excluded.last_seen_at
"""


def sighting_line(record: AuthRecord) -> str:
    return copy_line(
        record.tenant_id,
        record.mac,
        str(record.at),
        record.site_id,
        record.nas_id,
        record.nas_port,
        "t" if record.permitted else "f",
    )
