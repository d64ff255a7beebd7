"""Rows that the agent stored. Times are seconds after AT."""

from psycopg import sql

from tests.agent.journal_records import AT, SECOND

HOUR = 3_600
_BEGAN = AT // SECOND


def count(owner, table):
    return owner.execute(sql.SQL("SELECT count(*) FROM {}").format(sql.Identifier(table))).fetchone()[0]


def sessions(owner):
    """Rows of sessions: (id, start, end, session time, octets in, terminate cause, flags)."""
    return owner.execute(
        "SELECT session_id, extract(epoch FROM started_at)::bigint - %(at)s, "
        "extract(epoch FROM stopped_at)::bigint - %(at)s, session_seconds, input_octets, terminate_cause, flags "
        "FROM sessions ORDER BY started_at, session_id",
        {"at": _BEGAN},
    ).fetchall()


def flags(owner):
    return {row[0]: row[6] for row in sessions(owner)}


def live(owner):
    """The ids of the live sessions."""
    return [row[0] for row in sessions(owner) if row[2] is None]


def kept(owner):
    """Rows of the history: (id, end, session time)."""
    return owner.execute(
        "SELECT session_id, extract(epoch FROM stopped_at)::bigint - %s, session_seconds FROM session_history "
        "ORDER BY id",
        (_BEGAN,),
    ).fetchall()


def usage(owner):
    """Rows of the hourly usage: (hours after AT, seconds, octets in)."""
    rows = owner.execute(
        "SELECT extract(epoch FROM hour)::bigint, seconds, input_octets FROM usage_hours ORDER BY hour, seconds"
    )
    return [(hour // HOUR - _BEGAN // HOUR, seconds, octets) for hour, seconds, octets in rows]
