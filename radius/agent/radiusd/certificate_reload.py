"""Decides when radiusd restarts to load the server certificates of new tenants.

If radiusd has not loaded a certificate, radiusd reads the file at each handshake. Reading the file costs 1.1 ms, a
third more than a loaded certificate (`bench quick`, "new tenants"). A restart delays all tenants by 0.2 s. So radiusd
restarts only for several new tenants, in a quiet moment.
"""

import time
from collections.abc import Callable, Mapping

# Shortest wait: tenants often arrive in groups, and a new tenant has little load at first.
MIN_WAIT_SECONDS = 600.0
# Longest wait, for a cell that is never quiet.
MAX_WAIT_SECONDS = 24 * 3600.0
QUIET_SECONDS = 5.0
# Seconds between two checks for a quiet moment.
CHECK_INTERVAL_SECONDS = 60.0

SerialsBySlot = Mapping[int, str]


class CertificateReload:
    """Decides when radiusd restarts. `is_quiet(seconds)` waits for `seconds` and returns whether no request came."""

    def __init__(self, is_quiet: Callable[[float], bool], clock: Callable[[], float] = time.monotonic) -> None:
        self._is_quiet = is_quiet
        self._clock = clock
        self._since: float | None = None
        self._looked_at = float("-inf")
        # Certificates (slot, serial) for which radiusd was restarted already. If that restart did not load them,
        # another restart does not load them either.
        self._tried: frozenset[tuple[int, str]] = frozenset()

    def is_due(self, loaded: SerialsBySlot, live: SerialsBySlot, *, is_hidden: bool = False) -> bool:
        """Whether radiusd must restart now.

        `loaded` are the certificates that radiusd has loaded. `live` are the certificates that tenants present. Both
        arguments contain serial numbers by slot (port pair). `is_hidden` means that some devices cannot get a new
        certificate before the restart, so radiusd must restart without waiting.
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
