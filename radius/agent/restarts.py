"""NASes that start or stop accounting: they hold no session that began before (RFC 2866 5.1).

A restart is kept for as long as records from before may come, and its sessions are ended some at a time, in the order
of their index: a controller has hundreds of thousands. Equal NASes at two sites say the same of themselves, so one ends
sessions of its own site, and those of which no site is known.
"""

from collections.abc import Sequence

import psycopg

from radius.agent.rows import copy_rows
from radius.agent.session_ends import Named, ending
from radius.agent.stays import SessionBatch

# The site of a restart of which none is known.
NOWHERE = "'00000000-0000-0000-0000-000000000000'"
MOST_NASES = 500
# Of all these NASes together; when power comes back, thousands of switches restart with a few sessions each.
MOST_SESSIONS = 5_000
# A record comes up to a day late (usage.MAX_DELAY_SECONDS).
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
""".replace(":nowhere", NOWHERE)
# Behind row-level security a comparison of rows reaches the index as bare ones do.
RESTARTS_END = ending(
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
        -- Not to be joined in another order.
        OFFSET 0
    ) known
    """.replace(":nowhere", NOWHERE),
    # The last of what is looked at of each NAS in this turn; none where that is all.
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


def keep(cursor: psycopg.Cursor, batch: SessionBatch) -> bool:
    """Note the restarts of a batch; whether there were any. What begins behind them is told apart from then on."""
    if not copy_rows(cursor, _COPY, batch.restart_lines()):
        return False
    cursor.execute(_KEEP.encode())
    return True


def end_sessions(cursor: psycopg.Cursor, tenants: Sequence[str]) -> tuple[list[Named], bool]:
    """Tenant, station and name of some sessions from before the restarts, ended now; and whether there may be more."""
    given = {"tenants": tenants, "nases": MOST_NASES, "sessions": MOST_SESSIONS}
    ended = cursor.execute(RESTARTS_END.encode(), given).fetchall()
    (more,) = cursor.execute(_PENDING, given).fetchone() or (False,)
    return ended, more


def forget(cursor: psycopg.Cursor, tenants: Sequence[str], now: object) -> None:
    cursor.execute(_FORGET, (tenants, now, KEPT_SECONDS))
