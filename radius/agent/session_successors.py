"""Sessions whose NAS began another one of the same device with the same Acct-Session-Id: they are over, and their Stop
was lost, mostly with a NAS that restarted and says nothing of it.

What is live follows from what was told of both, in whatever order: a report of after the start of the other shows that
both go on, and a later report makes a session live again.
"""

from collections.abc import Sequence

import psycopg

from radius.agent.restarts import NOWHERE
from radius.agent.session_ends import Named, ending

SUPERSEDED = "superseded"
# Where an id is missing, several at once may have none. Equal NASes at two sites say the same of themselves.
_END = ending(
    """
    SELECT known.place, known.updated_at AS ended_at, '' AS cause, '{:superseded}'::text[] AS flag,
        known.settled_seconds, known.settled_input, known.settled_output
    FROM (
        SELECT DISTINCT b.tenant_id, b.nas_key, b.session_id, b.mac_key
        FROM unnest(%s::bigint[]) AS of (id) JOIN sessions b ON b.id = of.id WHERE b.session_id <> ''
    ) begun CROSS JOIN LATERAL (
        SELECT s.ctid AS place, s.updated_at, s.settled_seconds, s.settled_input, s.settled_output
        FROM sessions s
        WHERE s.tenant_id = begun.tenant_id AND s.nas_key = begun.nas_key AND s.session_id = begun.session_id
            AND s.mac_key = begun.mac_key AND s.stopped_at IS NULL
            AND EXISTS (
                SELECT FROM sessions n
                WHERE n.tenant_id = s.tenant_id AND n.nas_key = s.nas_key AND n.session_id = s.session_id
                    AND n.mac_key = s.mac_key AND n.started_at > s.started_at
                    AND n.started_at >= s.updated_at - interval '2 seconds'
                    AND (n.site_id = s.site_id OR n.site_id IS NULL OR s.site_id IS NULL)
            -- Its turn to be ended has not come yet (restarts.py).
            ) AND NOT EXISTS (
                SELECT FROM nas_restarts r
                WHERE r.tenant_id = s.tenant_id AND r.nas_key = s.nas_key AND r.ended_session IS NOT NULL
                    AND (r.site_id = s.site_id OR r.site_id = :nowhere OR s.site_id IS NULL)
                    AND s.started_at < r.restarted_at AND s.updated_at <= r.restarted_at + interval '2 seconds'
            )
        -- Not to be joined in another order.
        OFFSET 0
    ) known
    """.replace(":superseded", SUPERSEDED).replace(":nowhere", NOWHERE)
)


def end_superseded(cursor: psycopg.Cursor, rows: Sequence[int]) -> list[Named]:
    """Of the sessions with the ids (`sessions.id`) of these, which began or are live again, end those that are over."""
    return cursor.execute(_END.encode(), (rows,)).fetchall() if rows else []
