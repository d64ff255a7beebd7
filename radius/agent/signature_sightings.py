"""Whether exempt NASes send Message-Authenticator: one row for each, written once a minute."""

import psycopg

from nac.cellformat.journal.records import AuthRecord
from radius.agent.copy_format import copy_line, copy_rows, host_address


class SignatureSightings:
    def __init__(self) -> None:
        # By tenant and source address, in epoch microseconds: the last unsigned request, the first signed one after
        # it, and the last signed one. 0 for none.
        self._seen: dict[tuple[str, str], tuple[int, int, int]] = {}

    def add(self, record: AuthRecord) -> None:
        if not record.signature:
            return
        which, source = record.signature
        key = record.tenant_id, source
        unsigned, since, signed = self._seen.get(key, (0, 0, 0))
        if which == "unsigned":
            unsigned = max(unsigned, record.at)
        else:
            signed = max(signed, record.at)
            since = min(since or record.at, record.at)
        self._seen[key] = unsigned, since if since > unsigned else 0, signed

    def write(self, cursor: psycopg.Cursor) -> None:
        lines = (
            copy_line(tenant, host_address(source), *(str(at) if at else "" for at in times))
            for (tenant, source), times in self._seen.items()
        )
        if copy_rows(cursor, _COPY, lines):
            cursor.execute(_MERGE)


SIGNATURES_TABLE = """
CREATE TEMPORARY TABLE shipped_signatures (
    tenant_id uuid, source inet, unsigned_at bigint, signs_since bigint, signed_at bigint
) ON COMMIT DELETE ROWS
"""
_COPY = "COPY shipped_signatures FROM STDIN (NULL '')"
# Written once a minute and at each change. A late batch (radius/agent/replay.py) may make `signs_since` later than it
# was, never earlier.
_MERGE = """
INSERT INTO nas_signatures AS known (nas_id, tenant_id, last_unsigned_at, signs_since, last_signed_at)
SELECT n.id, n.tenant_id, to_timestamp(s.unsigned_at / 1e6), to_timestamp(s.signs_since / 1e6),
    to_timestamp(s.signed_at / 1e6)
FROM shipped_signatures s JOIN nases n ON n.tenant_id = s.tenant_id AND n.address = s.source
WHERE NOT n.require_message_authenticator
ORDER BY n.id
ON CONFLICT (nas_id) DO UPDATE SET
    last_unsigned_at = greatest(known.last_unsigned_at, excluded.last_unsigned_at),
    last_signed_at = greatest(known.last_signed_at, excluded.last_signed_at),
    signs_since = (
        SELECT min(t.at) FROM (VALUES (known.signs_since), (excluded.signs_since)) t (at)
        WHERE t.at > coalesce(greatest(known.last_unsigned_at, excluded.last_unsigned_at), '-infinity')
    )
WHERE excluded.last_unsigned_at
        >= coalesce(known.signs_since, known.last_unsigned_at + interval '1 minute', '-infinity')
    OR excluded.last_signed_at >= known.last_signed_at + interval '1 minute'
    OR (known.signs_since IS NULL AND excluded.signs_since > coalesce(known.last_unsigned_at, '-infinity'))
"""
