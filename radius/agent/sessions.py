"""Sessions out of accounting records: Start, Interim-Update and Stop in any order, each any number of times.

Every record tells when its session started: when it happened, less Acct-Session-Time. Records of one NAS, session id
and station whose starts agree within `SAME_START_SECONDS` are one session. Of those, the one that tells of the longest
time is the latest and gives counters and end, so neither the order of arrival nor repetition matters.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from radius.agent.rows import copy_line
from radius.agent.session_counts import address_key, name_key
from radius.agent.usage import RESTARTS, Usage, optional_number

_SECOND = 1_000_000
# A NAS that repeats a record without telling the delay shifts its start by the outage that made it repeat.
SAME_START_SECONDS = 300
_SAME_START = SAME_START_SECONDS * _SECOND

Key = tuple[str, str, str, str]


@dataclass(slots=True)
class Stay:
    """What a batch says of one session."""

    latest: Usage
    started_at: int
    # Nobody said how long it lasted yet: only an earlier record can tell when it started.
    start_unknown: bool
    has_start: bool
    progress: int
    stopped: bool

    def add(self, usage: Usage, started_at: int, *, known: bool) -> None:
        if known and self.start_unknown:
            self.started_at, self.start_unknown = started_at, False
            self.progress = _progress(self.latest, started_at)
        if usage.status_type == "Start":
            self.has_start = True
            if known:
                self.started_at = started_at
        stopped = usage.status_type == "Stop"
        progress = _progress(usage, self.started_at)
        older, newer = (usage, self.latest) if self._is_later(progress, stopped) else (self.latest, usage)
        if newer is usage:
            self.progress, self.stopped, self.latest = progress, stopped, usage
        _fill(newer, older)

    def _is_later(self, progress: int, stopped: bool) -> bool:
        """Whether what is known already is later than another record of this progress."""
        return self.progress > progress or (self.progress == progress and self.stopped and not stopped)


def _fill(newer: Usage, older: Usage) -> None:
    """A NAS may leave out of a Stop what it told before."""
    if newer.input_octets is None:
        newer.input_octets = older.input_octets
    if newer.output_octets is None:
        newer.output_octets = older.output_octets
    newer.framed_ip = newer.framed_ip or older.framed_ip
    newer.identity = newer.identity or older.identity


def _progress(usage: Usage, started_at: int) -> int:
    """Seconds that the session has lasted, as far as the NAS tells. A Start may be heard late, but it is the start."""
    if usage.status_type == "Start":
        return 0
    if usage.session_seconds is not None:
        return usage.session_seconds
    return max(0, usage.event_at - started_at) // _SECOND


class SessionBatch:
    """Collapses the records of a batch: each session is written once."""

    def __init__(self) -> None:
        self._stays: dict[Key, list[Stay]] = {}
        self._restarts: dict[tuple[str, str], Usage] = {}

    def add(self, usage: Usage) -> None:
        if usage.status_type in RESTARTS:
            self._add_restart(usage)
            return
        if usage.status_type not in ("Start", "Interim-Update", "Stop"):
            return
        seconds = 0 if usage.status_type == "Start" else usage.session_seconds
        known = seconds is not None
        started_at = usage.event_at - (seconds or 0) * _SECOND
        key = (usage.tenant_id, usage.nas_key, usage.session_id, usage.mac_key)
        stays = self._stays.setdefault(key, [])
        restart = self._restarts.get((usage.tenant_id, usage.nas_key))
        for stay in reversed(stays):
            # A NAS that has restarted may count its session ids from the beginning.
            if restart is not None and stay.started_at < restart.event_at <= started_at:
                continue
            if _is_same(stay, started_at, known=known):
                stay.add(usage, started_at, known=known)
                return
        stopped = usage.status_type == "Stop"
        started = usage.status_type == "Start"
        stays.append(Stay(usage, started_at, not known, started, _progress(usage, started_at), stopped))

    def _add_restart(self, usage: Usage) -> None:
        key = (usage.tenant_id, usage.nas_key)
        known = self._restarts.get(key)
        if known is None or known.event_at < usage.event_at:
            self._restarts[key] = usage

    def stay_lines(self) -> Iterable[str]:
        return [_stay_line(stay) for stays in self._stays.values() for stay in stays]

    def changed_counts(self, tenants: frozenset[str]) -> list[tuple[str, str]]:
        """Tenant and key of each count that a start or an end changes."""
        return [
            (usage.tenant_id, key)
            for stays in self._stays.values()
            for stay in stays
            if (usage := stay.latest).tenant_id in tenants and (stay.has_start or stay.stopped)
            for key in (address_key(usage.mac) if usage.mac else "", name_key(usage.identity) if usage.identity else "")
            if key
        ]

    def restart_lines(self) -> Iterable[str]:
        return [copy_line(tenant, key, str(usage.event_at)) for (tenant, key), usage in self._restarts.items()]


def _is_same(stay: Stay, started_at: int, *, known: bool) -> bool:
    if not known:
        return stay.start_unknown or stay.started_at <= started_at + _SAME_START
    if stay.start_unknown:
        return started_at <= stay.started_at + _SAME_START
    return abs(stay.started_at - started_at) <= _SAME_START


STAYS_TABLE = """
CREATE TEMPORARY TABLE shipped_stays (
    tenant_id uuid, nas_key text, session_id text, mac_key text, started_at bigint, start_unknown boolean, has_start
    boolean, progress bigint, stopped boolean, event_at bigint, site_id uuid, nas_id uuid, nas_address inet, mac
    macaddr, identity text, framed_ip inet, input_octets bigint, output_octets bigint,
    terminate_cause text
) ON COMMIT DELETE ROWS
"""
STAYS_COPY = "COPY shipped_stays FROM STDIN (NULL '')"


def _stay_line(stay: Stay) -> str:
    usage = stay.latest
    return copy_line(
        usage.tenant_id,
        usage.nas_key,
        usage.session_id,
        usage.mac_key,
        str(stay.started_at),
        "t" if stay.start_unknown else "f",
        "t" if stay.has_start else "f",
        "" if stay.start_unknown else str(stay.progress),
        "t" if stay.stopped else "f",
        str(usage.event_at),
        usage.site_id,
        usage.nas_id,
        usage.nas_address,
        usage.mac,
        usage.identity,
        usage.framed_ip,
        optional_number(usage.input_octets),
        optional_number(usage.output_octets),
        usage.terminate_cause if stay.stopped else "",
    )


# `earliest` and `latest` are columns because behind row-level security only bare comparisons reach the index. What was
# found is updated by its place (ctid), here and below, not by its key: over a table that was all but empty when it was
# last vacuumed, the planner would read the whole of it for each line of a batch.
STAYS_MERGE = """
WITH stay AS MATERIALIZED (
    SELECT
        n.tenant_id, coalesce(n.nas_key, '') AS nas_key, coalesce(n.session_id, '') AS session_id,
        coalesce(n.mac_key, '') AS mac_key, to_timestamp(n.started_at::float8 / 1e6) AS started_at,
        CASE WHEN n.start_unknown THEN '-infinity'
            ELSE to_timestamp(n.started_at::float8 / 1e6) - %(same_start)s::interval END AS earliest,
        to_timestamp(n.started_at::float8 / 1e6) + %(same_start)s::interval AS latest,
        to_timestamp(n.event_at::float8 / 1e6) AS event_at, n.start_unknown, n.has_start, n.progress, n.stopped,
        n.site_id, n.nas_id, n.nas_address, n.mac, coalesce(n.identity, '') AS identity, n.framed_ip,
        n.input_octets, n.output_octets, coalesce(n.terminate_cause, '') AS terminate_cause
    FROM shipped_stays n
), found AS MATERIALIZED (
    SELECT stay.*, known.place AS known_place,
        told.seconds > known.session_seconds
            OR (told.seconds = known.session_seconds AND (stay.stopped OR known.stopped_at IS NULL)) AS is_later,
        told.seconds
    FROM stay LEFT JOIN LATERAL (
        SELECT s.ctid AS place, s.started_at, s.stopped_at, s.session_seconds
        FROM sessions s
        WHERE s.tenant_id = stay.tenant_id AND s.nas_key = stay.nas_key AND s.session_id = stay.session_id
            AND s.mac_key = stay.mac_key AND s.started_at BETWEEN stay.earliest AND stay.latest
            AND NOT (stay.has_start AND s.stopped_at <= stay.started_at AND 'nas-restarted' = ANY (s.flags))
        ORDER BY abs(extract(epoch FROM s.started_at - stay.started_at))
        LIMIT 1
    ) known ON true CROSS JOIN LATERAL (
        SELECT coalesce(
            stay.progress, floor(greatest(0, extract(epoch FROM stay.event_at - known.started_at)))::bigint, 0
        ) AS seconds
    ) told
), merged AS (
    UPDATE sessions s SET
        site_id = CASE WHEN f.is_later THEN coalesce(f.site_id, s.site_id) ELSE s.site_id END,
        nas_id = CASE WHEN f.is_later THEN coalesce(f.nas_id, s.nas_id) ELSE s.nas_id END,
        nas_address = CASE WHEN f.is_later THEN coalesce(f.nas_address, s.nas_address) ELSE s.nas_address END,
        identity = CASE WHEN (f.is_later OR s.identity = '') AND f.identity <> '' THEN f.identity ELSE s.identity END,
        framed_ip = CASE WHEN f.is_later THEN coalesce(f.framed_ip, s.framed_ip)
            ELSE coalesce(s.framed_ip, f.framed_ip) END,
        updated_at = greatest(s.updated_at, f.event_at),
        stopped_at = CASE WHEN NOT f.is_later THEN s.stopped_at WHEN f.stopped THEN f.event_at END,
        session_seconds = greatest(f.seconds, s.session_seconds),
        input_octets = CASE WHEN f.is_later THEN coalesce(f.input_octets, s.input_octets)
            ELSE coalesce(s.input_octets, f.input_octets) END,
        output_octets = CASE WHEN f.is_later THEN coalesce(f.output_octets, s.output_octets)
            ELSE coalesce(s.output_octets, f.output_octets) END,
        terminate_cause = CASE WHEN f.is_later THEN f.terminate_cause ELSE s.terminate_cause END,
        flags = array_remove(
            array_remove(s.flags, CASE WHEN f.has_start THEN 'no-start' END),
            CASE WHEN f.is_later THEN 'nas-restarted' END
        )
    FROM found f
    WHERE s.ctid = f.known_place
)
INSERT INTO sessions (
    tenant_id, nas_key, session_id, mac_key, started_at, site_id, nas_id, nas_address, mac, identity, framed_ip,
    updated_at, stopped_at, session_seconds, input_octets, output_octets, terminate_cause, flags
)
SELECT
    tenant_id, nas_key, session_id, mac_key, started_at, site_id, nas_id, nas_address, mac, identity, framed_ip,
    event_at,
    CASE WHEN stopped THEN event_at END, seconds, input_octets, output_octets, terminate_cause,
    CASE WHEN has_start THEN '{}'::text[] ELSE '{no-start}' END
FROM found
WHERE known_place IS NULL
ON CONFLICT DO NOTHING
"""

RESTARTS_TABLE = """
CREATE TEMPORARY TABLE shipped_restarts (tenant_id uuid, nas_key text, event_at bigint) ON COMMIT DELETE ROWS
"""
RESTARTS_COPY = "COPY shipped_restarts FROM STDIN (NULL '')"
# RFC 2866 5.1: a NAS that starts or stops accounting holds no session that began before.
RESTARTS_CLOSE = """
UPDATE sessions s SET
    stopped_at = coalesce(s.stopped_at, greatest(s.updated_at, ended.event_at)), terminate_cause = 'NAS-Reboot',
    flags = s.flags || '{nas-restarted}'::text[]
FROM (
    SELECT known.place, r.event_at
    FROM (
        SELECT tenant_id, coalesce(nas_key, '') AS nas_key, to_timestamp(event_at::float8 / 1e6) AS event_at
        FROM shipped_restarts
    ) r CROSS JOIN LATERAL (
        SELECT live.ctid AS place FROM sessions live
        WHERE live.tenant_id = r.tenant_id AND live.nas_key = r.nas_key AND live.stopped_at IS NULL
            AND live.started_at < r.event_at AND live.updated_at <= r.event_at + interval '2 seconds'
        -- Not to be joined in another order.
        OFFSET 0
    ) known
) ended
WHERE s.ctid = ended.place
"""
