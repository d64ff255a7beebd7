"""Logs the source addresses of requests that radiusd drops because Message-Authenticator is missing.

Also stops floods of such requests.

radiusd calls this module for each dropped request (policy.d/admit_signed). The agent reads the log and raises an alarm.
"""

import socket
from collections import Counter
from collections.abc import Mapping

from nac.kit import clock
from radius.module import radiusd_api as radiusd
from radius.module import unsigned_filter
from radius.module.cell import get_cell, log_exception
from radius.module.request import SLOT_PREFIX_LENGTH
from radius.module.udp_sockets import ListenerSockets

PERIOD_SECONDS = 60
# Limit of logged addresses of one slot in a period. Attackers can forge addresses: a flood must not fill memory or log.
MAX_SOURCES = 50
# Limit of requests of one slot in a period. After that, the kernel drops them (radius/module/unsigned_filter.py).
MAX_REQUESTS = 200


class LoggedSources:
    """Addresses logged in this period, by slot; at most MAX_SOURCES for each slot."""

    def __init__(self) -> None:
        self._period = 0
        self._logged: dict[int, set[str]] = {}

    def add(self, slot: int, source: str, now_seconds: int) -> bool:
        """Add an address. Returns whether the address must be logged now."""
        period = now_seconds // PERIOD_SECONDS
        if period != self._period:
            self._period = period
            self._logged.clear()
        logged = self._logged.setdefault(slot, set())
        if source in logged or len(logged) >= MAX_SOURCES:
            return False
        logged.add(source)
        return True


class FloodFilter:
    """Stops floods: after MAX_REQUESTS, the kernel drops a listener's unsigned requests until the period ends."""

    def __init__(self, listeners: ListenerSockets, exempt: Mapping[int, tuple[str, ...]]) -> None:
        """Create the filter.

        `exempt` contains the addresses that need not sign, by slot (port pair). A slot without an entry gets no filter.
        """
        self._listeners = listeners
        self._exempt = exempt
        self._period = 0
        self._requests: Counter[int] = Counter()
        self._filtered: set[socket.socket] = set()

    def count(self, slot: int, source: str, port: int, now_seconds: int) -> None:
        """Count a request. Raises OSError if the kernel rejects the filter."""
        self.lift(now_seconds)
        self._requests[slot] += 1
        if self._requests[slot] <= MAX_REQUESTS or slot not in self._exempt:
            return
        listener = self._listeners.get(source, port)
        if listener is None or listener in self._filtered:
            return
        try:
            unsigned_filter.attach(listener, self._exempt[slot])
        except unsigned_filter.TooManyExempt:
            return
        self._filtered.add(listener)

    def lift(self, now_seconds: int) -> None:
        """Remove the filters of an earlier period."""
        period = now_seconds // PERIOD_SECONDS
        if period == self._period:
            return
        self._period = period
        self._requests.clear()
        while self._filtered:
            unsigned_filter.detach(self._filtered.pop())

    @property
    def is_up(self) -> bool:
        return bool(self._filtered)


_logged_sources = LoggedSources()
_flood_filter: FloodFilter | None = None


def instantiate(_: object) -> int:
    global _flood_filter
    settings = get_cell().settings
    _flood_filter = FloodFilter(ListenerSockets(settings), settings.exempt)
    return radiusd.OK


def authorize(pairs: radiusd.Pairs) -> radiusd.ModuleResult:
    try:
        values = dict(pairs)
        slot, source = int(values["Admit-Slot"][SLOT_PREFIX_LENGTH:]), values["Admit-Source"]
        log_unsigned(slot, source)
        if _flood_filter is not None:
            _flood_filter.count(slot, source, int(values["Admit-Port"]), clock.epoch_seconds())
    except Exception:  # house-rule: the edge of our code; the request is dropped anyway
        log_exception("unsigned")
    return radiusd.NOOP


def log_unsigned(slot: int, source: str) -> None:
    """Log the address at most once a minute."""
    if _logged_sources.add(slot, source, clock.epoch_seconds()):
        radiusd.log_error(f"admit: unsigned slot={slot} source={source}")


def lift_filters() -> None:
    """Remove filters of an earlier period.

    Call this function regularly, because radiusd does not notice requests that the kernel drops.
    """
    if _flood_filter is not None and _flood_filter.is_up:
        _flood_filter.lift(clock.epoch_seconds())
