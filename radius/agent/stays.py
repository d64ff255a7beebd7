"""Sessions out of accounting records: Start, Interim-Update and Stop in any order, each any number of times.

Every record tells when its session started: when it happened, less Acct-Session-Time. Records of one NAS, session id
and station whose starts agree within `SAME_START_SECONDS` are one session. Of those, the one that tells of the longest
time is the latest and gives the end; of each counter the largest counts, for they only ever grow (RFC 2866 5.3). So
neither the order of arrival nor repetition matters.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from radius.agent.rows import copy_line
from radius.agent.session_counts import count_keys
from radius.agent.usage import RESTARTS, Usage, optional_number

_SECOND = 1_000_000
# A NAS that repeats a record without telling the delay shifts its start by the outage that made it repeat.
SAME_START_SECONDS = 300
_SAME_START = SAME_START_SECONDS * _SECOND
# By how much the times of two records may be off from each other.
UNSURE_SECONDS = 30
_UNSURE = UNSURE_SECONDS * _SECOND
# What only several records together show; docs/accounting.md explains them.
BACKWARDS = "counters-backwards"
STARTED_AGAIN = "started-again"
STOPPED_TWICE = "stopped-twice"
_NONE: frozenset[str] = frozenset()

# Told once, they hold until something else is told.
_LASTING = (
    "identity",
    "nas_port",
    "framed_ip",
    "framed_ipv6",
    "framed_prefix",
    "delegated_prefix",
    "class_",
    "cui",
)

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
    faults: frozenset[str] = _NONE

    def add(self, usage: Usage, started_at: int, *, known: bool) -> None:
        if known and self.start_unknown:
            self.started_at, self.start_unknown = min(started_at, self.latest.event_at), False
            self.progress = _progress(self.latest, started_at)
        if usage.faults:
            self.faults |= frozenset(usage.faults)
        if usage.status_type == "Start":
            self.has_start = True
            if self.stopped and usage.event_at > self.latest.event_at + _UNSURE:
                self.faults |= {STARTED_AGAIN}
            # One that is later than what the session did since was heard late, or is of another that has the same id.
            if started_at <= self.latest.event_at:
                self.started_at = started_at
        elif usage.event_at < self.started_at:
            self.started_at = started_at
        stopped = usage.status_type == "Stop"
        progress = _progress(usage, self.started_at)
        is_apart = progress != self.progress
        if stopped and self.stopped and is_apart:
            self.faults |= {STOPPED_TWICE}
        older, newer = (usage, self.latest) if self._is_later(progress, stopped) else (self.latest, usage)
        if newer is usage:
            self.progress, self.stopped, self.latest = progress, stopped, usage
        if _fill(newer, older) and is_apart:
            self.faults |= {BACKWARDS}

    def _is_later(self, progress: int, stopped: bool) -> bool:
        """Whether what is known already is later than another record of this progress."""
        return self.progress > progress or (self.progress == progress and self.stopped and not stopped)


def _fill(newer: Usage, older: Usage) -> bool:
    """A NAS may leave out of a Stop what it told before. Whether a counter ran backwards."""
    backwards = False
    for counter in ("input_octets", "output_octets"):
        told, before = getattr(newer, counter), getattr(older, counter)
        if before is not None and (told is None or told < before):
            backwards |= told is not None
            setattr(newer, counter, before)
    for field in _LASTING:
        if not getattr(newer, field):
            setattr(newer, field, getattr(older, field))
    return backwards


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
        faults = frozenset(usage.faults) if usage.faults else _NONE
        stays.append(Stay(usage, started_at, not known, started, _progress(usage, started_at), stopped, faults))

    def _add_restart(self, usage: Usage) -> None:
        key = (usage.tenant_id, usage.nas_key)
        known = self._restarts.get(key)
        if known is None or known.event_at < usage.event_at:
            self._restarts[key] = usage

    def stay_lines(self) -> Iterable[str]:
        every = (stay for stays in self._stays.values() for stay in stays)
        return [_stay_line(number, stay) for number, stay in enumerate(every)]

    def changed_counts(self, tenants: frozenset[str]) -> list[tuple[str, str]]:
        """Tenant and key of each count that a start or an end changes."""
        changing = (stay for stays in self._stays.values() for stay in stays if stay.has_start or stay.stopped)
        named = ((stay.latest.tenant_id, stay.latest.mac or None, stay.latest.identity) for stay in changing)
        return count_keys(named, tenants) if tenants else []

    def begun(self) -> list[tuple[str, str, str]]:
        """Tenant, station and Class of the sessions that began and go on."""
        every = (stay for stays in self._stays.values() for stay in stays if stay.has_start and not stay.stopped)
        return [(stay.latest.tenant_id, stay.latest.mac, stay.latest.class_) for stay in every if stay.latest.mac]

    def going_on(self) -> list[Usage]:
        """The last that is told of each session that has not stopped."""
        return [stay.latest for stays in self._stays.values() for stay in stays if not stay.stopped]

    def restart_lines(self) -> Iterable[str]:
        return [copy_line(tenant, key, str(usage.event_at)) for (tenant, key), usage in self._restarts.items()]


def _is_same(stay: Stay, started_at: int, *, known: bool) -> bool:
    if not known:
        return stay.start_unknown or stay.started_at <= started_at + _SAME_START
    if stay.start_unknown:
        return started_at <= stay.started_at + _SAME_START
    return abs(stay.started_at - started_at) <= _SAME_START


def _stay_line(number: int, stay: Stay) -> str:
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
        optional_number(usage.input_octets),
        optional_number(usage.output_octets),
        usage.terminate_cause if stay.stopped else "",
    )
