"""Maintenance of the sessions table: ends sessions that stopped reporting, and moves old sessions to the history.

The shipper runs the maintenance in slices, because only the shipper writes sessions. The maintenance uses the time of
the journal instead of the clock. So no session counts as silent during a backlog, or while the cell receives nothing.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import NamedTuple

import psycopg

from radius.agent.sessions import nas_restarts
from radius.agent.sessions.ends import SessionIdentity, end_statement

_SECOND = 1_000_000
PASS_SECONDS = 300
SLICE_SECONDS = 1
SLICE_ROWS = 20_000
MAX_MOVED = 1_000
# Minimum silence in seconds before a session ends. A tenant sets how many reports may be missing. For a NAS that
# reports each minute, this time would be too short.
MIN_SILENCE_SECONDS = 900
# A record can be up to a day late (accounting_parser.MAX_DELAY_SECONDS), so older ends are final.
SETTLED_SECONDS = 2 * 86_400
# Longer than the time between two passes, and far shorter than the minimum silence.
OUTAGE_SECONDS = PASS_SECONDS + 60
# A session without a Stop may still continue, so it stays in the table longer.
STALE_SECONDS = 60 * 86_400

_SLICE_END = """
SELECT started_at::text, id, count(*) OVER () FROM (
    SELECT s.started_at, s.id FROM sessions s
    WHERE s.tenant_id = %(tenant)s AND s.stopped_at IS NULL
        AND (s.started_at, s.id) < (%(first_start)s::timestamptz, %(first_id)s::bigint)
    ORDER BY s.started_at DESC, s.id DESC LIMIT %(rows)s
) slice
ORDER BY slice.started_at, slice.id LIMIT 1
"""
_END_SILENT = end_statement(
    """
    SELECT s.ctid AS place, s.updated_at AS ended_at, '' AS cause, '{stale}'::text[] AS flag,
        s.settled_seconds, s.settled_input, s.settled_output
    FROM sessions s JOIN tenants t ON t.id = s.tenant_id
    WHERE s.tenant_id = %(tenant)s AND s.stopped_at IS NULL
        AND (s.started_at, s.id) < (%(first_start)s::timestamptz, %(first_id)s::bigint)
        AND (s.started_at, s.id) >= (%(last_start)s::timestamptz, %(last_id)s::bigint)
        -- This test first: it excludes almost all sessions.
        AND s.updated_at < %(now)s::timestamptz - %(least)s * interval '1 second'
        AND CASE
            -- A NAS that sends no Interim-Update is silent until the Stop.
            WHEN s.interim_seconds IS NULL THEN s.updated_at < %(now)s::timestamptz - t.silent_days * interval '1 day'
            ELSE greatest(s.updated_at, %(heard_since)s) < %(now)s::timestamptz - greatest(
                    s.interim_seconds::float8 * t.silent_reports, %(least)s
                ) * interval '1 second' END
    """
)
_COLUMNS = """
    id, tenant_id, nas_key, session_id, mac_key, started_at, site_id, nas_id, nas_address, nas_port, mac, identity,
    identity_key,
    framed_ip, framed_ipv6, framed_prefix, delegated_prefix, class, cui, updated_at, stopped_at, session_seconds,
    input_octets, output_octets, terminate_cause, flags
"""
_MOVE = """
WITH gone AS (
    DELETE FROM sessions s WHERE s.ctid = ANY (ARRAY(
        SELECT old.place FROM unnest(%(tenants)s::uuid[]) AS of (tenant_id) CROSS JOIN LATERAL (
            SELECT e.ctid AS place FROM sessions e
            WHERE e.tenant_id = of.tenant_id AND e.stopped_at IS NOT NULL AND :kind
                AND e.stopped_at < %(now)s::timestamptz - :age * interval '1 second'
            ORDER BY e.stopped_at LIMIT %(most)s
        ) old LIMIT %(most)s
    )) RETURNING s.*
), kept AS (
    INSERT INTO session_history (:columns) SELECT :columns FROM gone
)
SELECT count(*) FROM gone
""".replace(":columns", _COLUMNS)
# Each statement uses its own index.
_MOVE_ENDED = _MOVE.replace(":kind", "NOT ('stale' = ANY (e.flags))").replace(":age", "%(settled)s")
_MOVE_STALE = _MOVE.replace(":kind", "'stale' = ANY (e.flags)").replace(":age", "%(stale)s")


class ScanPosition(NamedTuple):
    """Position of the scan through live sessions: a tenant, then its sessions from the newest to the oldest."""

    tenant_id: str
    # Timestamp as PostgreSQL prints it.
    started_at: str = "infinity"
    id: int = 2**63 - 1


SCAN_START = ScanPosition("")


@dataclass(frozen=True, slots=True)
class SessionMaintenance:
    """State of the maintenance of the sessions table. Times are epoch microseconds."""

    place: ScanPosition = SCAN_START
    due_at: int = 0
    # Whether sessions from before a NAS restart must still be ended.
    ending: bool = True
    # First and last moment of the current period in which the cell could receive accounting without interruption.
    heard_since: int = 0
    heard_until: int = 0

    @classmethod
    def from_json(cls, text: str) -> "SessionMaintenance":
        """Parse the JSON of `to_json`, which has only the period in which the cell could receive accounting."""
        kept = json.loads(text)
        return cls(heard_since=int(kept.get("heard_since", 0)), heard_until=int(kept.get("heard_until", 0)))

    def to_json(self) -> str:
        return json.dumps({"heard_since": self.heard_since, "heard_until": self.heard_until})

    def is_due(self, now: int) -> bool:
        # A clock that was set back does not delay the next pass.
        return self.ending or now >= self.due_at or self.due_at - now > PASS_SECONDS * _SECOND

    def heard(self, now: int) -> "SessionMaintenance":
        """Record that the cell could receive accounting at the time `now`."""
        is_new = now - self.heard_until > OUTAGE_SECONDS * _SECOND or now < self.heard_since
        return replace(self, heard_since=now if is_new else self.heard_since, heard_until=max(now, self.heard_until))

    def run(
        self, cursor: psycopg.Cursor, tenants: frozenset[str], now: int
    ) -> tuple["SessionMaintenance", list[SessionIdentity]]:
        """Process the next slice (a limited number) of the sessions. Returns the new state and the ended sessions."""
        ended, more = nas_restarts.end_sessions(cursor, sorted(tenants)) if self.ending else ([], False)
        kept = replace(self, ending=more)
        if more or not kept.is_due(now):
            return kept, ended
        kept, silent = kept._maintain(cursor, tenants, now)
        return kept, ended + silent

    def _maintain(
        self, cursor: psycopg.Cursor, tenants: frozenset[str], now: int
    ) -> tuple["SessionMaintenance", list[SessionIdentity]]:
        parameters = {
            "tenants": sorted(tenants),
            "now": _to_datetime(now),
            "heard_since": _to_datetime(self.heard_since),
            "least": MIN_SILENCE_SECONDS,
            "settled": SETTLED_SECONDS,
            "stale": STALE_SECONDS,
            "most": MAX_MOVED,
        }
        place, ended = self._reap(cursor, sorted(tenants), parameters)
        moved = [cursor.execute(move.encode(), parameters).fetchone() for move in (_MOVE_ENDED, _MOVE_STALE)]
        nas_restarts.delete_old_restarts(cursor, sorted(tenants), _to_datetime(now))
        wait = SLICE_SECONDS if place.tenant_id else PASS_SECONDS
        if (MAX_MOVED,) in moved:
            wait = 0
        return replace(self, place=place, due_at=now + wait * _SECOND), ended

    def _reap(
        self, cursor: psycopg.Cursor, tenants: Sequence[str], parameters: dict[str, object]
    ) -> tuple[ScanPosition, list[SessionIdentity]]:
        """End the silent sessions of a slice. Returns the slice's end and the ended sessions.

        Reads the sessions of one tenant at a time.
        """
        left = SLICE_ROWS
        ended: list[SessionIdentity] = []
        for tenant_id in tenants:
            if tenant_id < self.place.tenant_id:
                continue
            first = self.place if tenant_id == self.place.tenant_id else ScanPosition(tenant_id)
            bounds = parameters | {
                "tenant": tenant_id,
                "first_start": first.started_at,
                "first_id": first.id,
                "rows": left,
            }
            slice_end = cursor.execute(_SLICE_END, bounds).fetchone()
            if slice_end is None:
                continue
            last = ScanPosition(tenant_id, *slice_end[:2])
            bounds |= {"last_start": last.started_at, "last_id": last.id}
            ended += cursor.execute(_END_SILENT.encode(), bounds).fetchall()
            left -= slice_end[2]
            if not left:
                return last, ended
        return SCAN_START, ended


def _to_datetime(microseconds: int) -> datetime:
    return datetime.fromtimestamp(microseconds / _SECOND, UTC)
