"""Ends sessions of NASes that reported Accounting-On or Accounting-Off: earlier sessions are over (RFC 2866 5.1).

A restart stays stored as long as records from before the restart may still arrive. A controller can have hundreds of
thousands of sessions. So Admit ends the sessions in batches, in the order of their index. NASes at two sites may have
the same identifier. So a restart ends only sessions of its own site and sessions without a known site.
"""

from collections.abc import Sequence

import psycopg

from radius.agent.copy_format import copy_rows
from radius.agent.sessions.batch import SessionBatch
from radius.agent.sessions.ends import SessionIdentity, end_statement

# Stored as the site of a restart whose site is unknown.
NO_SITE = "'00000000-0000-0000-0000-000000000000'"
MAX_NASES = 500
# Limit of sessions per batch, shared by all NASes: after a power failure, thousands of switches restart with a few
# sessions each.
MAX_SESSIONS = 5_000
# Longer than the maximum delay of a record, a day (accounting_parser.MAX_DELAY_SECONDS).
KEPT_SECONDS = 2 * 86_400

RESTARTS_TABLE = """
CREATE TEMPORARY TABLE shipped_restarts (
    tenant_id uuid, nas_key text, site_id uuid, event_at bigint
) ON COMMIT DELETE ROWS
"""
_COPY = "COPY shipped_restarts FROM STDIN (NULL '')"
_KEEP = """
INSERT INTO nas_restarts AS r (tenant_id, nas_key, site_id, restarted_at, ended_session, ended_mac, ended_start)
SELECT tenant_id, coalesce(nas_key, ''), coalesce(site_id, :nowhere), to_timestamp(event_at::float8 / 1e6),
    '', '', '-infinity'
FROM shipped_restarts
ON CONFLICT (tenant_id, nas_key, site_id) DO UPDATE SET
    restarted_at = excluded.restarted_at, ended_session = '', ended_mac = '', ended_start = '-infinity'
WHERE r.restarted_at < excluded.restarted_at
""".replace(":nowhere", NO_SITE)
# With row-level security, PostgreSQL uses the index for a row comparison as for plain columns.
RESTARTS_END = end_statement(
    """
    SELECT known.place, greatest(known.updated_at, p.restarted_at) AS ended_at, 'NAS-Reboot' AS cause,
        '{nas-restarted}'::text[] AS flag, known.settled_seconds, known.settled_input, known.settled_output
    FROM pending p CROSS JOIN LATERAL (
        SELECT s.ctid AS place, s.updated_at, s.settled_seconds, s.settled_input, s.settled_output
        FROM sessions s
        WHERE s.tenant_id = p.tenant_id AND s.nas_key = p.nas_key
            AND (s.session_id, s.mac_key, s.started_at) > (p.ended_session, p.ended_mac, p.ended_start)
            AND (p.last_session IS NULL
                OR (s.session_id, s.mac_key, s.started_at) <= (p.last_session, p.last_mac, p.last_start))
            AND s.stopped_at IS NULL AND s.started_at < p.restarted_at
            AND s.updated_at <= p.restarted_at + interval '2 seconds'
            AND (s.site_id = p.site_id OR s.site_id IS NULL OR p.site_id = :nowhere)
        -- OFFSET 0 keeps PostgreSQL from joining in another order.
        OFFSET 0
    ) known
    """.replace(":nowhere", NO_SITE),
    # Last session of each NAS in this batch; NULL if the batch includes all remaining sessions of the NAS.
    before="""
    pending AS MATERIALIZED (
        SELECT r.*, last.session_id AS last_session, last.mac_key AS last_mac, last.started_at AS last_start
        FROM (
            SELECT *, greatest(1, %(sessions)s / count(*) OVER ()) AS share FROM (
                SELECT n.ctid AS of_nas, n.* FROM nas_restarts n
                WHERE n.tenant_id = ANY (%(tenants)s::uuid[]) AND n.ended_session IS NOT NULL
                ORDER BY n.restarted_at LIMIT %(nases)s
            ) oldest
        ) r LEFT JOIN LATERAL (
            SELECT s.session_id, s.mac_key, s.started_at FROM sessions s
            WHERE s.tenant_id = r.tenant_id AND s.nas_key = r.nas_key
                AND (s.session_id, s.mac_key, s.started_at) > (r.ended_session, r.ended_mac, r.ended_start)
            ORDER BY s.session_id, s.mac_key, s.started_at OFFSET r.share - 1 LIMIT 1
        ) last ON true
    ), moved AS (
        UPDATE nas_restarts n SET
            ended_session = p.last_session, ended_mac = p.last_mac, ended_start = p.last_start
        FROM pending p WHERE n.ctid = p.of_nas
    ),
    """,
)
_PENDING = """
SELECT EXISTS (SELECT FROM nas_restarts WHERE tenant_id = ANY (%(tenants)s::uuid[]) AND ended_session IS NOT NULL)
"""
_FORGET = """
DELETE FROM nas_restarts WHERE tenant_id = ANY (%s::uuid[]) AND ended_session IS NULL
    AND restarted_at < %s - %s * interval '1 second'
"""


def record_restarts(cursor: psycopg.Cursor, batch: SessionBatch) -> bool:
    """Store the NAS restarts of a batch. A restart separates the sessions before it from the sessions after it.

    Returns whether the batch contains restarts.
    """
    if not copy_rows(cursor, _COPY, batch.restart_lines()):
        return False
    cursor.execute(_KEEP.encode())
    return True


def end_sessions(cursor: psycopg.Cursor, tenants: Sequence[str]) -> tuple[list[SessionIdentity], bool]:
    """End a bounded number of sessions from before the restarts.

    Returns tenant, MAC address and user name of each ended session, and whether further sessions may follow.
    """
    parameters = {"tenants": tenants, "nases": MAX_NASES, "sessions": MAX_SESSIONS}
    ended = cursor.execute(RESTARTS_END.encode(), parameters).fetchall()
    (more,) = cursor.execute(_PENDING, parameters).fetchone() or (False,)
    return ended, more


def delete_old_restarts(cursor: psycopg.Cursor, tenants: Sequence[str], now: object) -> None:
    cursor.execute(_FORGET, (tenants, now, KEPT_SECONDS))
