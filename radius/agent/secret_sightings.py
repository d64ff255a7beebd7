"""Which secret a NAS used during a rotation: one row for each NAS, written at most once a batch."""

import psycopg

from nac.cellformat.journal.records import AccountingRecord, AuthRecord
from radius.agent.accounting_parser import shorten_key
from radius.agent.copy_format import copy_line, copy_rows, host_address

# Limit of NASes for a rotation: invented names must not fill the table.
MAX_NASES = 20_000

# Rotation, NAS and secret ("old" or "new").
SecretSightingKey = tuple[str, str, str]


class SecretSightings:
    def __init__(self) -> None:
        # Time of the last request in epoch microseconds, with the NAS's tenant, id and source address.
        self._seen: dict[SecretSightingKey, tuple[int, str, str, str]] = {}

    def add(self, record: AuthRecord | AccountingRecord, identifier: str) -> None:
        if not record.proof:
            return
        rotation, which, source = record.proof
        nas_key = record.nas_id or shorten_key(f"{identifier}|{record.nas_address}")
        key = (rotation, nas_key, which)
        if key not in self._seen or self._seen[key][0] < record.at:
            self._seen[key] = (record.at, record.tenant_id, record.nas_id, source)

    def write(self, cursor: psycopg.Cursor) -> None:
        lines = (
            copy_line(rotation, nas_key, which, str(at), tenant, nas, host_address(source))
            for (rotation, nas_key, which), (at, tenant, nas, source) in self._seen.items()
        )
        if copy_rows(cursor, _COPY, lines):
            cursor.execute(_MERGE, {"most": MAX_NASES})


def get_nas_identifier(record: AccountingRecord) -> str:
    return next((value for name, value in record.attributes if name == "NAS-Identifier"), "")


SECRETS_TABLE = """
CREATE TEMPORARY TABLE shipped_secrets (
    rotation_id uuid, nas_key text, which text, at bigint, tenant_id uuid, nas_id uuid, source inet
) ON COMMIT DELETE ROWS
"""
_COPY = "COPY shipped_secrets FROM STDIN (NULL '')"
# Ordered by key, so that the two streams do not deadlock.
_MERGE = """
INSERT INTO secret_sightings AS known (rotation_id, nas_key, tenant_id, nas_id, source, old_at, new_at, new_since)
SELECT s.rotation_id, s.nas_key, r.tenant_id, (array_agg(s.nas_id ORDER BY s.at DESC))[1],
    (array_agg(s.source ORDER BY s.at DESC))[1],
    to_timestamp(max(s.at) FILTER (WHERE s.which = 'old')::float8 / 1e6),
    to_timestamp(max(s.at) FILTER (WHERE s.which = 'new')::float8 / 1e6),
    to_timestamp(min(s.at) FILTER (WHERE s.which = 'new')::float8 / 1e6)
FROM shipped_secrets s JOIN secret_rotations r ON r.id = s.rotation_id AND r.tenant_id = s.tenant_id
WHERE (SELECT count(*) FROM secret_sightings o WHERE o.rotation_id = s.rotation_id) < %(most)s
GROUP BY s.rotation_id, s.nas_key, r.tenant_id
ORDER BY s.rotation_id, s.nas_key
ON CONFLICT (rotation_id, nas_key) DO UPDATE SET
    nas_id = excluded.nas_id, source = excluded.source,
    old_at = greatest(known.old_at, excluded.old_at), new_at = greatest(known.new_at, excluded.new_at),
    new_since = least(known.new_since, excluded.new_since)
"""
