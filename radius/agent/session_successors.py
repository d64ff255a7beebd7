"""Sessions whose NAS began another one of the same device with the same Acct-Session-Id: they are over, and their Stop
was lost, mostly with a NAS that restarted and says nothing of it.

What is live follows from what was told of both, in whatever order: a report of after the start of the other shows that
both go on, and a later report makes a session live again.
"""

from collections.abc import Collection

import psycopg

from radius.agent.restarts import NOWHERE
from radius.agent.session_ends import Named, ending
from radius.agent.stays import Key

SUPERSEDED = "superseded"
# Equal NASes at two sites say the same of themselves.
_END = ending(
    """
    SELECT known.place, known.updated_at AS ended_at, '' AS cause, '{:superseded}'::text[] AS flag,
        known.settled_seconds, known.settled_input, known.settled_output
    FROM unnest(%s::uuid[], %s::text[], %s::text[], %s::text[]) AS begun (tenant_id, nas_key, session_id, mac_key)
    CROSS JOIN LATERAL (
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


def end_superseded(cursor: psycopg.Cursor, keys: Collection[Key]) -> list[Named]:
    """End what is over of the sessions of these keys, of each of which one began, or is live again, beside others.

    None of them without an Acct-Session-Id: several at once may have none.
    """
    return cursor.execute(_END.encode(), tuple(map(list, zip(*keys, strict=True)))).fetchall() if keys else []
