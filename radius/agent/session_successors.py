"""Ends sessions whose NAS began another one of the same device with the same Acct-Session-Id: their Stop was lost.

Mostly the NAS restarted without a report. The result does not depend on the order of records: a report after the start
of the other session shows that both continue, and makes an ended one live again.
"""

from collections.abc import Collection

import psycopg

from radius.agent.nas_restarts import NO_SITE
from radius.agent.session_batch import SessionKey
from radius.agent.session_ends import SessionIdentity, end_statement

SUPERSEDED = "superseded"
# NASes at two sites may identify themselves equally.
_END = end_statement(
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
    """.replace(":superseded", SUPERSEDED).replace(":nowhere", NO_SITE)
)


def end_superseded_sessions(cursor: psycopg.Cursor, keys: Collection[SessionKey]) -> list[SessionIdentity]:
    """End superseded sessions of these keys, each of which has a new or revived session beside others.

    Skips sessions without an Acct-Session-Id, because several may have none.
    """
    return cursor.execute(_END.encode(), tuple(map(list, zip(*keys, strict=True)))).fetchall() if keys else []
