"""Merges a batch of accounting records into the sessions, and their usage into hours.

Only the shipper of a cell writes the sessions of its tenants. So no other process changes a session while the shipper
reads and writes the session.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import psycopg

from radius.agent.copy_format import copy_rows
from radius.agent.sessions.batch import CLOCK_TOLERANCE_SECONDS, SAME_START_SECONDS, SessionBatch, SessionKey
from radius.agent.sessions.ends import SessionIdentity, end_statement
from radius.agent.sessions.nas_restarts import NO_SITE

# Tenant id, MAC address and Class.
StartedSession = tuple[str, str, str]

SESSION_UPDATES_TABLE = """
CREATE TEMPORARY TABLE shipped_stays (
    number int, tenant_id uuid, nas_key text, session_id text, mac_key text, started_at bigint, start_unknown boolean,
    has_start boolean, progress bigint, stopped boolean, faults text[], event_at bigint, site_id uuid, nas_id uuid,
    nas_address inet, nas_port text, mac macaddr, identity text, framed_ip inet, framed_ipv6 inet, framed_prefix inet,
    delegated_prefix inet, class text, cui text, input_octets bigint, output_octets bigint, terminate_cause text
) ON COMMIT DELETE ROWS
"""
SESSION_UPDATES_COPY = "COPY shipped_stays FROM STDIN (NULL '')"
# `earliest` and `latest` are columns, because with row-level security PostgreSQL uses the index only for comparisons
# with plain columns. Updates use the place (ctid) instead of the key. By the key, PostgreSQL would read the whole
# table for each line if the table was almost empty at its last vacuum. Two updates of a batch may belong to one
# session. Then the statement merges the first update, and returns the second update for another round. Usage counts
# for the hour in which it was reported. A report of a later hour, or the end of the session, makes this usage final.
# A NAS restart ends sessions. A record from before the restart does not make such a session live again.
SESSION_UPDATES_MERGE = """
WITH stay AS MATERIALIZED (
    SELECT
        n.number, n.tenant_id, coalesce(n.nas_key, '') AS nas_key, coalesce(n.session_id, '') AS session_id,
        coalesce(n.mac_key, '') AS mac_key, to_timestamp(n.started_at::float8 / 1e6) AS started_at,
        CASE WHEN n.start_unknown THEN '-infinity'
            ELSE to_timestamp(n.started_at::float8 / 1e6) - %(same_start)s::interval END AS earliest,
        to_timestamp(n.started_at::float8 / 1e6) + %(same_start)s::interval AS latest,
        to_timestamp(n.event_at::float8 / 1e6) AS event_at,
        to_timestamp((n.event_at / 3600000000 * 3600)::float8) AS hour,
        n.has_start, n.progress, n.stopped, n.faults, n.site_id, n.nas_id, n.nas_address,
        coalesce(n.nas_port, '') AS nas_port, n.mac, coalesce(n.identity, '') AS identity, n.framed_ip, n.framed_ipv6,
        n.framed_prefix, n.delegated_prefix, coalesce(n.class, '') AS class, coalesce(n.cui, '') AS cui,
        n.input_octets, n.output_octets, coalesce(n.terminate_cause, '') AS terminate_cause
    FROM shipped_stays n
), found AS MATERIALIZED (
    SELECT stay.*, restart.restarted_at, known.*, coalesce(
            stay.progress,
            -- Without a session time, nothing shows that the session continued after its Stop.
            CASE WHEN known.has_stopped AND NOT stay.stopped THEN known.known_seconds END,
            floor(greatest(0, extract(epoch FROM stay.event_at - coalesce(known.known_start, stay.started_at))))::bigint
        ) AS seconds
    FROM stay CROSS JOIN LATERAL (
        SELECT max(r.restarted_at) AS restarted_at FROM nas_restarts r
        WHERE r.tenant_id = stay.tenant_id AND r.nas_key = stay.nas_key
            AND (r.site_id = stay.site_id OR r.site_id = :nowhere OR stay.site_id IS NULL)
    ) restart LEFT JOIN LATERAL (
        SELECT s.ctid AS place, s.started_at AS known_start, s.stopped_at AS known_stop,
            s.session_seconds AS known_seconds, s.input_octets AS known_input, s.output_octets AS known_output,
            s.updated_at AS known_update, s.usage_hour AS known_hour, s.settled_seconds, s.settled_input,
            s.settled_output, s.class AS known_class, s.flags AS known_flags,
            'nas-restarted' = ANY (s.flags) AS known_restarted,
            s.stopped_at IS NOT NULL AND NOT (s.flags && %(presumed)s::text[]) AS has_stopped
        FROM sessions s
        WHERE s.tenant_id = stay.tenant_id AND s.nas_key = stay.nas_key AND s.session_id = stay.session_id
            AND s.mac_key = stay.mac_key AND s.started_at BETWEEN stay.earliest AND stay.latest
            AND (stay.has_start AND CASE WHEN s.stopped_at IS NULL
                -- The restart has yet to end this session.
                THEN s.started_at < restart.restarted_at AND restart.restarted_at <= stay.started_at
                    AND s.updated_at <= restart.restarted_at + interval '2 seconds'
                ELSE s.stopped_at <= stay.started_at AND 'nas-restarted' = ANY (s.flags) END) IS NOT TRUE
            -- Exclude another session with this id, before or after the Stop (rules as in batch.py).
            AND (s.stopped_at IS NOT NULL AND NOT (s.flags && %(presumed)s::text[]) AND CASE WHEN stay.progress IS NULL
                THEN stay.event_at > s.stopped_at + %(same_start)s::interval
                ELSE stay.started_at > s.stopped_at + %(unsure)s::interval AND (
                    stay.has_start OR stay.progress > s.session_seconds OR stay.input_octets > s.input_octets
                    OR stay.output_octets > s.output_octets
                ) END) IS NOT TRUE
            AND (stay.stopped AND stay.progress IS NOT NULL
                AND s.started_at > stay.event_at + %(unsure)s::interval AND (
                'no-start' <> ALL (s.flags) OR s.session_seconds > stay.progress
                OR s.input_octets > stay.input_octets OR s.output_octets > stay.output_octets
            )) IS NOT TRUE
        ORDER BY abs(extract(epoch FROM s.started_at - stay.started_at))
        LIMIT 1
    ) known ON true
), fresh AS MATERIALIZED (
    SELECT f.*,
        coalesce(f.started_at - lag(f.started_at) OVER in_order <= %(same_start)s::interval, false) AS is_waiting,
        f.session_id <> '' AND (other.is_there OR count(*) OVER of_id > 1) AS has_others
    FROM found f LEFT JOIN LATERAL (
        SELECT true AS is_there FROM sessions s
        WHERE s.tenant_id = f.tenant_id AND s.nas_key = f.nas_key AND s.session_id = f.session_id
            AND s.mac_key = f.mac_key
        LIMIT 1
    ) other ON true
    WHERE f.place IS NULL
    WINDOW of_id AS (PARTITION BY f.tenant_id, f.nas_key, f.session_id, f.mac_key),
        in_order AS (of_id ORDER BY f.started_at, f.number)
), merged AS (
    UPDATE sessions s SET
        site_id = CASE WHEN f.is_later THEN coalesce(f.site_id, s.site_id) ELSE s.site_id END,
        nas_id = CASE WHEN f.is_later THEN coalesce(f.nas_id, s.nas_id) ELSE s.nas_id END,
        nas_address = CASE WHEN f.is_later THEN coalesce(f.nas_address, s.nas_address) ELSE s.nas_address END,
        nas_port = CASE WHEN (f.is_later OR s.nas_port = '') AND f.nas_port <> '' THEN f.nas_port ELSE s.nas_port END,
        identity = CASE WHEN (f.is_later OR s.identity = '') AND f.identity <> '' THEN f.identity ELSE s.identity END,
        class = CASE WHEN (f.is_later OR s.class = '') AND f.class <> '' THEN f.class ELSE s.class END,
        cui = CASE WHEN (f.is_later OR s.cui = '') AND f.cui <> '' THEN f.cui ELSE s.cui END,
        framed_ip = CASE WHEN f.is_later THEN coalesce(f.framed_ip, s.framed_ip)
            ELSE coalesce(s.framed_ip, f.framed_ip) END,
        framed_ipv6 = CASE WHEN f.is_later THEN coalesce(f.framed_ipv6, s.framed_ipv6)
            ELSE coalesce(s.framed_ipv6, f.framed_ipv6) END,
        framed_prefix = CASE WHEN f.is_later THEN coalesce(f.framed_prefix, s.framed_prefix)
            ELSE coalesce(s.framed_prefix, f.framed_prefix) END,
        delegated_prefix = CASE WHEN f.is_later THEN coalesce(f.delegated_prefix, s.delegated_prefix)
            ELSE coalesce(s.delegated_prefix, f.delegated_prefix) END,
        -- Estimate the NAS's interval. Begin with an hour. A longer pause replaces the estimate at once. A shorter one
        -- reduces it by half of the pause: a NAS also reports between intervals, when something changes. However many
        -- such reports come, at least half of the real interval remains.
        interim_seconds = CASE
            WHEN NOT f.is_later OR f.event_at < f.known_update + interval '1 minute' THEN s.interim_seconds
            ELSE least(greatest(
                extract(epoch FROM f.event_at - f.known_update),
                coalesce(s.interim_seconds - extract(epoch FROM f.event_at - f.known_update) / 2, 3600)
            ), 86400)::int END,
        updated_at = greatest(s.updated_at, f.event_at),
        stopped_at = f.ends_at,
        session_seconds = f.total_seconds, input_octets = f.total_input, output_octets = f.total_output,
        terminate_cause = CASE WHEN f.is_later AND (f.stopped OR f.ends_at IS NULL) THEN f.terminate_cause
            ELSE s.terminate_cause END,
        flags = CASE
            WHEN s.flags = '{}' AND f.new_flags = '{}' THEN s.flags
            ELSE ARRAY(
                SELECT flag FROM unnest(s.flags) flag
                WHERE NOT (f.has_start AND flag = 'no-start')
                    AND NOT (f.is_later AND (f.stopped OR f.ends_at IS NULL) AND flag = ANY (%(presumed)s))
                UNION ALL
                SELECT DISTINCT flag FROM unnest(f.new_flags) flag WHERE flag <> ALL (s.flags)
            ) END,
        usage_hour = f.last_hour,
        settled_seconds = CASE WHEN f.ends_at IS NOT NULL THEN coalesce(f.total_seconds, 0) ELSE f.base_seconds END,
        settled_input = CASE WHEN f.ends_at IS NOT NULL THEN coalesce(f.total_input, 0) ELSE f.base_input END,
        settled_output = CASE WHEN f.ends_at IS NOT NULL THEN coalesce(f.total_output, 0) ELSE f.base_output END
    FROM (
        SELECT t.*,
            CASE WHEN t.is_later THEN greatest(t.hour, t.known_hour) ELSE t.known_hour END AS last_hour,
            CASE WHEN t.hour_is_over THEN coalesce(t.known_seconds, 0) ELSE t.settled_seconds END AS base_seconds,
            CASE WHEN t.hour_is_over THEN coalesce(t.known_input, 0) ELSE t.settled_input END AS base_input,
            CASE WHEN t.hour_is_over THEN coalesce(t.known_output, 0) ELSE t.settled_output END AS base_output,
            CASE
                WHEN t.is_later AND t.stopped THEN greatest(t.event_at, t.known_start)
                WHEN t.is_later AND NOT (
                    t.known_restarted AND t.event_at <= greatest(t.known_stop, t.restarted_at + interval '2 seconds')
                ) THEN NULL
                ELSE t.known_stop END AS ends_at
        FROM (
            SELECT f.*, later.is_later, later.is_later AND f.hour > f.known_hour AS hour_is_over,
                greatest(f.seconds, f.known_seconds) AS total_seconds,
                greatest(f.input_octets, f.known_input) AS total_input,
                greatest(f.output_octets, f.known_output) AS total_output,
                f.faults || CASE WHEN CASE
                    WHEN f.seconds > f.known_seconds
                        THEN f.input_octets < f.known_input OR f.output_octets < f.known_output
                    WHEN f.seconds < f.known_seconds
                        THEN f.input_octets > f.known_input OR f.output_octets > f.known_output
                    END THEN '{counters-backwards}'::text[] ELSE '{}' END
                || CASE WHEN f.known_stop IS NULL OR f.known_flags && %(presumed)s::text[] THEN '{}'::text[]
                    WHEN f.stopped AND f.seconds <> f.known_seconds THEN '{stopped-twice}'
                    ELSE '{}' END AS new_flags
            FROM found f CROSS JOIN LATERAL (
                SELECT coalesce(
                    f.seconds > f.known_seconds
                        OR (f.seconds = f.known_seconds AND (f.stopped OR f.known_stop IS NULL)), true
                ) AS is_later
            ) later
            WHERE f.place IS NOT NULL
        ) t
    ) f
    WHERE s.ctid = f.place
    RETURNING f.number, s.tenant_id, s.id, s.site_id, s.nas_id, s.nas_key, s.mac, s.identity,
        f.known_hour, f.base_seconds - f.settled_seconds AS seconds_before,
        f.base_input - f.settled_input AS input_before, f.base_output - f.settled_output AS output_before,
        s.usage_hour, s.settled_seconds - f.base_seconds AS seconds, s.settled_input - f.base_input AS input,
        s.settled_output - f.base_output AS output, s.class, s.session_id, s.mac_key,
        s.stopped_at IS NULL AND f.known_stop IS NOT NULL AS is_live_again,
        s.stopped_at IS NULL AND (f.known_stop IS NOT NULL OR s.class <> f.known_class) AS is_new
), begun AS (
    INSERT INTO sessions (
        tenant_id, nas_key, session_id, mac_key, started_at, site_id, nas_id, nas_address, nas_port, mac, identity,
        framed_ip, framed_ipv6, framed_prefix, delegated_prefix, class, cui, updated_at, stopped_at, session_seconds,
        input_octets, output_octets, terminate_cause, flags, usage_hour, settled_seconds, settled_input, settled_output
    )
    SELECT
        f.tenant_id, f.nas_key, f.session_id, f.mac_key, f.started_at, f.site_id, f.nas_id, f.nas_address, f.nas_port,
        f.mac, f.identity, f.framed_ip, f.framed_ipv6, f.framed_prefix, f.delegated_prefix, f.class, f.cui, f.event_at,
        CASE WHEN f.stopped THEN greatest(f.event_at, f.started_at)
            WHEN over.is_over THEN greatest(f.restarted_at, f.event_at) END, f.seconds, f.input_octets, f.output_octets,
        CASE WHEN over.is_over AND NOT f.stopped THEN 'NAS-Reboot' ELSE f.terminate_cause END,
        CASE WHEN f.has_start THEN '{}'::text[] ELSE '{no-start}' END || f.faults
            || CASE WHEN over.is_over AND NOT f.stopped THEN '{nas-restarted}'::text[] ELSE '{}' END,
        f.hour, CASE WHEN over.is_over THEN f.seconds ELSE 0 END,
        CASE WHEN over.is_over THEN coalesce(f.input_octets, 0) ELSE 0 END,
        CASE WHEN over.is_over THEN coalesce(f.output_octets, 0) ELSE 0 END
    FROM fresh f CROSS JOIN LATERAL (
        SELECT f.stopped OR coalesce(
            f.restarted_at > f.started_at AND f.restarted_at >= f.event_at - interval '2 seconds', false
        ) AS is_over
    ) over
    WHERE NOT f.is_waiting
    RETURNING tenant_id, usage_hour, id, site_id, nas_id, nas_key, mac, identity, settled_seconds, settled_input,
        settled_output, class, stopped_at IS NULL AS is_new
), used AS (
    INSERT INTO usage_hours (
        tenant_id, hour, session_row, site_id, nas_id, nas_key, mac, identity, seconds, input_octets, output_octets
    )
    SELECT tenant_id, known_hour, id, site_id, nas_id, nas_key, mac, identity, seconds_before, input_before,
        output_before
    FROM merged WHERE seconds_before > 0 OR input_before > 0 OR output_before > 0
    UNION ALL
    SELECT tenant_id, usage_hour, id, site_id, nas_id, nas_key, mac, identity, seconds, input, output
    FROM merged WHERE seconds > 0 OR input > 0 OR output > 0
    UNION ALL
    SELECT tenant_id, usage_hour, id, site_id, nas_id, nas_key, mac, identity, settled_seconds, settled_input,
        settled_output
    FROM begun WHERE settled_seconds > 0 OR settled_input > 0 OR settled_output > 0
)
SELECT number, NULL, NULL, NULL, NULL, NULL, NULL FROM found
WHERE place IS NOT NULL AND number NOT IN (SELECT number FROM merged)
UNION ALL SELECT number, NULL, NULL, NULL, NULL, NULL, NULL FROM fresh WHERE is_waiting
UNION ALL SELECT NULL, tenant_id::text, mac::text, class, NULL, NULL, NULL FROM merged WHERE is_new AND mac IS NOT NULL
UNION ALL SELECT NULL, tenant_id::text, mac::text, class, NULL, NULL, NULL FROM begun WHERE is_new AND mac IS NOT NULL
UNION ALL SELECT NULL, tenant_id::text, NULL, NULL, nas_key, session_id, mac_key FROM fresh
WHERE has_others AND NOT is_waiting
UNION ALL SELECT NULL, tenant_id::text, NULL, NULL, nas_key, session_id, mac_key FROM merged
WHERE is_live_again AND session_id <> ''
""".replace(":nowhere", NO_SITE)


@dataclass(frozen=True, slots=True)
class MergeResult:
    # Sessions that began, became live again, or got another Class.
    begun: list[StartedSession]
    # Sessions that ended because another session with their key began later.
    superseded: list[SessionIdentity]


def merge_sessions(cursor: psycopg.Cursor, batch: SessionBatch) -> MergeResult:
    """Write the sessions of a batch. The caller must store the restarts of this batch before this call."""
    begun: list[StartedSession] = []
    doubtful: set[SessionKey] = set()
    waiting: list[int] = []
    if not copy_rows(cursor, SESSION_UPDATES_COPY, batch.session_lines()):
        return MergeResult([], [])
    parameters = {
        "same_start": f"{SAME_START_SECONDS} seconds",
        "unsure": f"{CLOCK_TOLERANCE_SECONDS} seconds",
        "presumed": ["nas-restarted", "stale", SUPERSEDED],
    }
    while True:
        waiting.clear()
        for number, tenant_id, station, class_, *of_nas in cursor.execute(SESSION_UPDATES_MERGE.encode(), parameters):
            if number is not None:
                waiting.append(number)
            elif station is not None:
                begun.append((tenant_id, station, class_))
            else:
                doubtful.add((tenant_id, *of_nas))
        if not waiting:
            return MergeResult(begun, end_superseded_sessions(cursor, doubtful))
        cursor.execute("DELETE FROM shipped_stays WHERE number <> ALL (%s)", (waiting,))


_END_REFUSED = "SELECT end_refused_sessions(%s::uuid[], %s::macaddr[], %s::text[])"


def end_refused_sessions(cursor: psycopg.Cursor, begun: Sequence[StartedSession]) -> None:
    """End sessions that began after their device was blocked, or after their certificate was revoked.

    At the time of the block or revocation, Admit did not know of these sessions yet. This function runs in the
    transaction that stores the sessions, so each session is ended exactly once.
    """
    if begun:
        cursor.execute(_END_REFUSED, tuple(map(list, zip(*begun, strict=True))))


SUPERSEDED = "superseded"
# NASes at two sites may have the same identifier, so compare the sites, too.
_END_SUPERSEDED = end_statement(
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
            -- The restart has yet to end this session (nas_restarts.py).
            ) AND NOT EXISTS (
                SELECT FROM nas_restarts r
                WHERE r.tenant_id = s.tenant_id AND r.nas_key = s.nas_key AND r.ended_session IS NOT NULL
                    AND (r.site_id = s.site_id OR r.site_id = :nowhere OR s.site_id IS NULL)
                    AND s.started_at < r.restarted_at AND s.updated_at <= r.restarted_at + interval '2 seconds'
            )
        -- OFFSET 0 keeps PostgreSQL from joining in another order.
        OFFSET 0
    ) known
    """.replace(":superseded", SUPERSEDED).replace(":nowhere", NO_SITE)
)


def end_superseded_sessions(cursor: psycopg.Cursor, keys: Collection[SessionKey]) -> list[SessionIdentity]:
    """End sessions whose Stop was lost.

    The NAS of such a session began another session of the same device with the same id.

    Usually the NAS restarted without reporting the restart. The order of records does not matter. If the first session
    reports after the second session began, both sessions continue. If the first session has already been ended, the
    session becomes live again. Skips sessions without Acct-Session-Id, because several sessions may have no id.
    """
    if not keys:
        return []
    return cursor.execute(_END_SUPERSEDED.encode(), tuple(map(list, zip(*keys, strict=True)))).fetchall()


_SECOND = 1_000_000
_RECALL = "SELECT recall_sessions(%s::uuid[], %s::text[], %s::text[], %s::text[], %s::timestamptz[], %s::timestamptz[])"


def recall_sessions(cursor: psycopg.Cursor, batch: SessionBatch) -> None:
    """Move sessions from the history to the table `sessions`, if a batch may update the sessions.

    Session maintenance later moves the sessions to the history again.

    Only quarantined records can belong to a session in the history. For all other records, the session is not in the
    history yet, because maintenance uses the time of the journal.
    """
    near = timedelta(seconds=SAME_START_SECONDS)
    updates = []
    for key, stay in batch.keyed_updates():
        began = datetime.fromtimestamp(stay.started_at / _SECOND, UTC)
        earliest = "-infinity" if stay.start_unknown else (began - near).isoformat()
        updates.append((*key, earliest, (began + near).isoformat()))
    if updates:
        cursor.execute(_RECALL, tuple(map(list, zip(*updates, strict=True))))
