"""Sessions from accounting records.

Start, Interim-Update and Stop may arrive in any order, and each of them any number of times.

Each record shows the start of its session: the time of the record minus Acct-Session-Time. Records with the same NAS,
session id and MAC address belong to one session if their starts differ by at most `SAME_START_SECONDS`. The record with
the longest session time counts as the latest record, and determines the end of the session. The largest value of each
counter is used, because counters only grow (RFC 2866 5.3). So neither the order of arrival nor repetition matters.

A record that shows a start after a Stop, and has larger values than the Stop, belongs to another session with the same
id. `SessionUpdates` applies these rules to a batch of records. SESSION_UPDATES_MERGE (merge.py) applies the same rules
to the stored sessions.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from operator import attrgetter

from radius.agent.accounting_parser import RESTART_STATUS_TYPES, ParsedAccounting, format_optional_number
from radius.agent.copy_format import copy_line
from radius.agent.sessions.counts import count_keys

_SECOND = 1_000_000
# A NAS that repeats a record without Acct-Delay-Time shifts the computed start by the length of the outage.
SAME_START_SECONDS = 300
_SAME_START = SAME_START_SECONDS * _SECOND
# Tolerated difference between the clocks from which the times of two records come.
CLOCK_TOLERANCE_SECONDS = 30
_CLOCK_TOLERANCE = CLOCK_TOLERANCE_SECONDS * _SECOND
# Flags of faults that only several records of a session show (docs/reference/accounting.md).
COUNTERS_BACKWARDS = "counters-backwards"
STOPPED_TWICE = "stopped-twice"
_NO_FAULTS: frozenset[str] = frozenset()

# Fields of a session that keep their value until a record has another value.
_PERSISTENT_FIELDS = (
    "identity",
    "nas_port",
    "framed_ip",
    "framed_ipv6",
    "framed_prefix",
    "delegated_prefix",
    "class_",
    "cui",
)

SessionKey = tuple[str, str, str, str]


@dataclass(slots=True)
class SessionUpdate:
    """Values of one session, collected from the records of a batch."""

    latest: ParsedAccounting
    started_at: int
    # True if no record had a session time. In this case, the real start is `started_at` or earlier.
    start_unknown: bool
    has_start: bool
    progress: int
    stopped: bool
    faults: frozenset[str] = _NO_FAULTS

    def add(self, usage: ParsedAccounting, started_at: int, *, known: bool) -> None:
        if known and self.start_unknown:
            self.started_at, self.start_unknown = min(started_at, self.latest.event_at), False
        if usage.faults:
            self.faults |= frozenset(usage.faults)
        if usage.status_type == "Start":
            self.has_start = True
            # Ignore the time of a Start if it is later than the time of the latest record.
            if started_at <= self.latest.event_at:
                self.started_at = started_at
        elif usage.event_at < self.started_at:
            self.started_at = started_at
        self.progress = _elapsed_seconds(self.latest, self.started_at)
        stopped = usage.status_type == "Stop"
        progress = _elapsed_seconds(usage, self.started_at)
        is_apart = progress != self.progress
        # Without a session time, nothing shows that the session continued after its Stop.
        is_late = self.stopped and not stopped and usage.session_seconds is None
        if stopped and self.stopped and is_apart:
            self.faults |= {STOPPED_TWICE}
        older, newer = (usage, self.latest) if is_late or self._is_later(progress, stopped) else (self.latest, usage)
        if newer is usage:
            self.progress, self.stopped, self.latest = progress, stopped, usage
        if _fill_missing(newer, older) and is_apart:
            self.faults |= {COUNTERS_BACKWARDS}

    def _is_later(self, progress: int, stopped: bool) -> bool:
        """Whether the collected values are newer than a record with the session time `progress` (in seconds)."""
        return self.progress > progress or (self.progress == progress and self.stopped and not stopped)

    def is_of(self, usage: ParsedAccounting, started_at: int, *, known: bool) -> bool:
        """Whether a record belongs to this session. `known`: the record shows when its session started."""
        ended_at = max(self.latest.event_at, self.started_at)
        if not known:
            is_near = self.start_unknown or self.started_at <= started_at + _SAME_START
            return is_near and not (self.stopped and usage.event_at > ended_at + _SAME_START)
        if started_at - self.started_at > _SAME_START or (
            not self.start_unknown and self.started_at - started_at > _SAME_START
        ):
            return False
        if self.stopped and started_at > ended_at + _CLOCK_TOLERANCE:
            return not (
                usage.status_type == "Start" or _exceeds(usage, usage.session_seconds, self.latest, self.progress)
            )
        if (
            usage.status_type == "Stop"
            and not self.start_unknown
            and self.started_at > usage.event_at + _CLOCK_TOLERANCE
        ):
            return not (self.has_start or _exceeds(self.latest, self.progress, usage, usage.session_seconds))
        return True


def _exceeds(usage: ParsedAccounting, seconds: int | None, other: ParsedAccounting, other_seconds: int | None) -> bool:
    pairs = (
        (seconds, other_seconds),
        (usage.input_octets, other.input_octets),
        (usage.output_octets, other.output_octets),
    )
    return any(one is not None and another is not None and one > another for one, another in pairs)


def _fill_missing(newer: ParsedAccounting, older: ParsedAccounting) -> bool:
    """Copy values that `newer` lacks from `older`. Also copy each counter that is larger in `older`.

    Returns whether a counter in `newer` is lower than in `older`.
    """
    backwards = False
    for counter in ("input_octets", "output_octets"):
        after, before = getattr(newer, counter), getattr(older, counter)
        if before is not None and (after is None or after < before):
            backwards |= after is not None
            setattr(newer, counter, before)
    for field in _PERSISTENT_FIELDS:
        if not getattr(newer, field):
            setattr(newer, field, getattr(older, field))
    return backwards


def _elapsed_seconds(usage: ParsedAccounting, started_at: int) -> int:
    """Session time in seconds, as reported by the NAS, otherwise computed.

    The session time of a Start is 0, even if the Start arrives late.
    """
    if usage.status_type == "Start":
        return 0
    if usage.session_seconds is not None:
        return usage.session_seconds
    return max(0, usage.event_at - started_at) // _SECOND


_start_of = attrgetter("started_at")


class SessionUpdates:
    """Sessions in a batch that have the same NAS, session id and MAC address, ordered by start.

    Some NASes use the same session id for all sessions.
    """

    __slots__ = ("_known", "_unknown")

    def __init__(self) -> None:
        self._known: list[SessionUpdate] = []
        self._unknown: list[SessionUpdate] = []

    def __iter__(self) -> Iterator[SessionUpdate]:
        yield from self._known
        yield from self._unknown

    def put(self, stay: SessionUpdate) -> None:
        stays = self._unknown if stay.start_unknown else self._known
        stays.insert(bisect_right(stays, stay.started_at, key=_start_of), stay)

    def remove_update(self, stay: SessionUpdate) -> None:
        stays = self._unknown if stay.start_unknown else self._known
        place = bisect_left(stays, stay.started_at, key=_start_of)
        while stays[place] is not stay:
            place += 1
        del stays[place]

    def find(self, usage: ParsedAccounting, started_at: int, restarted_at: int, *, known: bool) -> SessionUpdate | None:
        """Find the session of a record. If several sessions match, return the session with the nearest start."""
        fitting = (
            stay
            for stay in self._near(started_at, known=known)
            # A restarted NAS may reuse session ids.
            if not stay.started_at < restarted_at <= started_at and stay.is_of(usage, started_at, known=known)
        )
        return min(fitting, key=lambda stay: abs(stay.started_at - started_at), default=None)

    def _near(self, started_at: int, *, known: bool) -> Iterator[SessionUpdate]:
        """Sessions whose start is near `started_at`. Uses binary search, because there may be thousands of sessions."""
        last = bisect_right(self._known, started_at + _SAME_START, key=_start_of)
        if known:
            yield from self._known[bisect_left(self._known, started_at - _SAME_START, key=_start_of) : last]
        else:
            yield from self._known[max(0, last - 1) : last]
        place = bisect_left(self._unknown, started_at - _SAME_START, key=_start_of)
        yield from self._unknown[max(0, place - 1) : place + 2]


class SessionBatch:
    """Combines the records of a batch, so that each session is written once."""

    def __init__(self) -> None:
        self._stays: dict[SessionKey, SessionUpdates] = {}
        # Time of the last restart, by tenant and NAS, then by site.
        self._restarts: dict[tuple[str, str], dict[str, int]] = {}

    def add(self, usage: ParsedAccounting) -> None:
        if usage.status_type in RESTART_STATUS_TYPES:
            restarts = self._restarts.setdefault((usage.tenant_id, usage.nas_key), {})
            restarts[usage.site_id] = max(usage.event_at, restarts.get(usage.site_id, 0))
            return
        if usage.status_type not in ("Start", "Interim-Update", "Stop"):
            return
        seconds = 0 if usage.status_type == "Start" else usage.session_seconds
        known = seconds is not None
        started_at = usage.event_at - (seconds or 0) * _SECOND
        stays = self._stays.setdefault(
            (usage.tenant_id, usage.nas_key, usage.session_id, usage.mac_key), SessionUpdates()
        )
        stay = stays.find(usage, started_at, self._restarted_at(usage), known=known)
        if stay is not None:
            stays.remove_update(stay)
            stay.add(usage, started_at, known=known)
        else:
            stopped = usage.status_type == "Stop"
            started = usage.status_type == "Start"
            faults = frozenset(usage.faults) if usage.faults else _NO_FAULTS
            stay = SessionUpdate(
                usage, started_at, not known, started, _elapsed_seconds(usage, started_at), stopped, faults
            )
        stays.put(stay)

    def _restarted_at(self, usage: ParsedAccounting) -> int:
        """Time of the last restart of the record's NAS in the batch; 0 if the batch contains no such restart."""
        restarts = self._restarts.get((usage.tenant_id, usage.nas_key), {})
        fitting = (at for site, at in restarts.items() if site in ("", usage.site_id) or not usage.site_id)
        return max(fitting, default=0)

    def keyed_updates(self) -> Iterator[tuple[SessionKey, SessionUpdate]]:
        return ((key, stay) for key, stays in self._stays.items() for stay in stays)

    def session_lines(self) -> Iterable[str]:
        every = (stay for stays in self._stays.values() for stay in stays)
        return [_session_line(number, stay) for number, stay in enumerate(every)]

    def changed_counts(self, tenants: frozenset[str]) -> list[tuple[str, str]]:
        """Tenant and key of each session count that a start or an end in this batch changes."""
        changing = (stay for stays in self._stays.values() for stay in stays if stay.has_start or stay.stopped)
        named = ((stay.latest.tenant_id, stay.latest.mac or None, stay.latest.identity) for stay in changing)
        return count_keys(named, tenants) if tenants else []

    def list_ongoing(self) -> list[ParsedAccounting]:
        """The latest record of each session without a Stop."""
        return [stay.latest for stays in self._stays.values() for stay in stays if not stay.stopped]

    def restart_lines(self) -> Iterable[str]:
        return [
            copy_line(tenant, key, site, str(at))
            for (tenant, key), sites in self._restarts.items()
            for site, at in sites.items()
        ]


def _session_line(number: int, stay: SessionUpdate) -> str:
    usage = stay.latest
    return copy_line(
        str(number),
        usage.tenant_id,
        usage.nas_key,
        usage.session_id,
        usage.mac_key,
        str(stay.started_at),
        "t" if stay.start_unknown else "f",
        "t" if stay.has_start else "f",
        "" if stay.start_unknown else str(stay.progress),
        "t" if stay.stopped else "f",
        f"{{{','.join(sorted(stay.faults))}}}",
        str(usage.event_at),
        usage.site_id,
        usage.nas_id,
        usage.nas_address,
        usage.nas_port,
        usage.mac,
        usage.identity,
        usage.framed_ip,
        usage.framed_ipv6,
        usage.framed_prefix,
        usage.delegated_prefix,
        usage.class_,
        usage.cui,
        format_optional_number(usage.input_octets),
        format_optional_number(usage.output_octets),
        usage.terminate_cause if stay.stopped else "",
    )
