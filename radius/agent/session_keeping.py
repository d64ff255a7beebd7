"""Care of the table of sessions: those that nobody hears of end, and those that ended long ago go into the history.

A slice at a time, by the shipper itself, because it is the one who writes sessions. Time is that of the journal: while
a backlog is read, nobody was silent. Nor was anybody while the cell could not hear.
"""

import json
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import psycopg

from radius.agent import restarts
from radius.agent.session_ends import Named, ending

_SECOND = 1_000_000
PASS_SECONDS = 300
SLICE_SECONDS = 1
SLICE_ROWS = 20_000
MOST_MOVED = 1_000
# Tenants say how many reports may be missed; a NAS that reports each minute may be busy for longer than that.
LEAST_SILENCE_SECONDS = 900
# A record comes up to a day late (usage.MAX_DELAY_SECONDS): what ended before that changes no more.
SETTLED_SECONDS = 2 * 86_400
# Longer than a pass takes to come, and far shorter than the least silence.
DEAF_SECONDS = PASS_SECONDS + 60
# What was only taken for ended may go on.
STALE_SECONDS = 60 * 86_400

_SLICE = "SELECT max(id), count(*) FROM (SELECT id FROM sessions WHERE id > %s ORDER BY id LIMIT %s) slice"
_REAP = ending(
    """
    SELECT s.ctid AS place, s.updated_at AS ended_at, '' AS cause, '{stale}'::text[] AS flag,
        s.settled_seconds, s.settled_input, s.settled_output
    FROM sessions s JOIN tenants t ON t.id = s.tenant_id
    WHERE s.id > %(first)s AND s.id <= %(last)s AND s.stopped_at IS NULL
        -- Of few sessions is there more to ask.
        AND s.updated_at < %(now)s::timestamptz - %(least)s * interval '1 second'
        AND CASE
            -- Of a NAS that sends no Interim-Update nothing is heard before the end.
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
WITH gone AS (DELETE FROM sessions s WHERE s.ctid = ANY (ARRAY(:chosen)) RETURNING s.*), kept AS (
    INSERT INTO session_history (:columns) SELECT :columns FROM gone
)
SELECT count(*) FROM gone
""".replace(":columns", _COLUMNS)
_MOVE_ENDED = _MOVE.replace(
    ":chosen",
    """
    SELECT old.place FROM unnest(%(tenants)s::uuid[]) AS of (tenant_id) CROSS JOIN LATERAL (
        SELECT e.ctid AS place FROM sessions e
        WHERE e.tenant_id = of.tenant_id AND e.stopped_at < %(now)s::timestamptz - %(settled)s * interval '1 second'
            AND e.stopped_at IS NOT NULL AND NOT ('stale' = ANY (e.flags))
        ORDER BY e.stopped_at LIMIT %(most)s
    ) old LIMIT %(most)s
    """,
)
_MOVE_STALE = _MOVE.replace(
    ":chosen",
    """
    SELECT s.ctid FROM sessions s
    WHERE s.id > %(first)s AND s.id <= %(last)s
        AND s.stopped_at < %(now)s::timestamptz - %(stale)s * interval '1 second'
    """,
)


@dataclass(frozen=True, slots=True)
class Keeping:
    """How far the care has come; the times are epoch microseconds."""

    after_row: int = 0
    due_at: int = 0
    # NASes have restarted, and sessions from before are still to be ended.
    ending: bool = True
    # Since when the cell has heard without a break, and until when that is known.
    heard_since: int = 0
    heard_until: int = 0

    @classmethod
    def from_json(cls, text: str) -> "Keeping":
        """Of what another agent left in the database: what it heard."""
        kept = json.loads(text)
        return cls(heard_since=int(kept.get("heard_since", 0)), heard_until=int(kept.get("heard_until", 0)))

    def to_json(self) -> str:
        return json.dumps({"heard_since": self.heard_since, "heard_until": self.heard_until})

    def is_due(self, now: int) -> bool:
        # A clock that was set back does not put it off.
        return self.ending or now >= self.due_at or self.due_at - now > PASS_SECONDS * _SECOND

    def heard(self, now: int) -> "Keeping":
        """The cell hears, or a record of this time came."""
        is_new = now - self.heard_until > DEAF_SECONDS * _SECOND or now < self.heard_since
        return replace(self, heard_since=now if is_new else self.heard_since, heard_until=max(now, self.heard_until))

    def run(self, cursor: psycopg.Cursor, tenants: frozenset[str], now: int) -> tuple["Keeping", list[Named]]:
        """One slice; what comes next, and the sessions that ended."""
        ended, more = restarts.end_sessions(cursor, sorted(tenants)) if self.ending else ([], False)
        kept = replace(self, ending=more)
        if more or not kept.is_due(now):
            return kept, ended
        kept, silent = kept._care(cursor, tenants, now)
        return kept, ended + silent

    def _care(self, cursor: psycopg.Cursor, tenants: frozenset[str], now: int) -> tuple["Keeping", list[Named]]:
        given = {
            "tenants": sorted(tenants),
            "now": _moment(now),
            "heard_since": _moment(self.heard_since),
            "least": LEAST_SILENCE_SECONDS,
            "settled": SETTLED_SECONDS,
            "stale": STALE_SECONDS,
            "most": MOST_MOVED,
        }
        last, size = cursor.execute(_SLICE, (self.after_row, SLICE_ROWS)).fetchone() or (None, 0)
        ended: list[Named] = []
        if last is not None:
            bounds = given | {"first": self.after_row, "last": last}
            ended = cursor.execute(_REAP.encode(), bounds).fetchall()
            cursor.execute(_MOVE_STALE.encode(), bounds)
        moved = cursor.execute(_MOVE_ENDED.encode(), given).fetchone()
        restarts.forget(cursor, sorted(tenants), _moment(now))
        if moved is not None and moved[0] == MOST_MOVED:
            wait = 0
        else:
            wait = SLICE_SECONDS if size == SLICE_ROWS else PASS_SECONDS
        return replace(self, after_row=last if size == SLICE_ROWS else 0, due_at=now + wait * _SECOND), ended


def _moment(microseconds: int) -> datetime:
    return datetime.fromtimestamp(microseconds / _SECOND, UTC)
