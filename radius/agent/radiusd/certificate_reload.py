"""Decides when radiusd restarts to load the certificates of new tenants.

radiusd reads a certificate that it has not loaded from its file for each handshake: 1.1 ms, a third more
(`bench quick`, "new tenants"). A restart costs all tenants 0.2 s, so it waits for several tenants and a quiet moment.
"""

import time
from collections.abc import Callable, Mapping

# Tenants arrive in groups, and a new one has no peak hour yet.
MIN_WAIT_SECONDS = 600.0
# The longest wait, for a cell that is never quiet.
MAX_WAIT_SECONDS = 24 * 3600.0
QUIET_SECONDS = 5.0
# Between two checks for a quiet moment.
CHECK_INTERVAL_SECONDS = 60.0

SerialsBySlot = Mapping[int, str]


class CertificateReload:
    """Decision when to restart. `is_quiet(seconds)` waits so long and returns whether no request came."""

    def __init__(self, is_quiet: Callable[[float], bool], clock: Callable[[], float] = time.monotonic) -> None:
        self._is_quiet = is_quiet
        self._clock = clock
        self._since: float | None = None
        self._looked_at = float("-inf")
        # Serials already tried: if one restart did not load them, another does not either.
        self._tried: frozenset[tuple[int, str]] = frozenset()

    def is_due(self, loaded: SerialsBySlot, live: SerialsBySlot, *, is_hidden: bool = False) -> bool:
        """Whether to restart now. Takes serials of server certificates by slot: loaded ones and the tenants' own.

        `is_hidden`: devices cannot see one of the new certificates before the restart, so do not wait.
        """
        waiting = frozenset((slot, serial) for slot, serial in live.items() if loaded.get(slot) != serial)
        if waiting <= self._tried:
            self._since = None
            return False
        if is_hidden:
            self._tried, self._since = waiting, None
            return True
        now = self._clock()
        if self._since is None:
            self._since = now
        waited = now - self._since
        if waited < MIN_WAIT_SECONDS or now < self._looked_at + CHECK_INTERVAL_SECONDS:
            return False
        self._looked_at = now
        if waited < MAX_WAIT_SECONDS and not self._is_quiet(QUIET_SECONDS):
            return False
        self._tried, self._since = waiting, None
        return True
