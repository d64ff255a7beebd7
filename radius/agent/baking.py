"""When radiusd is exchanged to load the certificates of new tenants.

A certificate that radiusd has not loaded is read from its file for each handshake, which takes 1.1 ms (a third more,
`bench quick`, "new tenants"). An exchange costs everybody 0.2 s of silence: so it waits, and for a quiet moment.
"""

import time
from collections.abc import Callable, Mapping

# Tenants come in groups, and a new one has no morning rush.
WAIT_SECONDS = 600.0
# A cell that is never quiet.
LONGEST_WAIT_SECONDS = 24 * 3600.0
QUIET_SECONDS = 5.0
# Between two looks whether it is quiet.
LOOK_SECONDS = 60.0

Serials = Mapping[int, str]


class Baking:
    """`is_quiet(seconds)` tells after that time whether nobody asked meanwhile."""

    def __init__(self, is_quiet: Callable[[float], bool], clock: Callable[[], float] = time.monotonic) -> None:
        self._is_quiet = is_quiet
        self._clock = clock
        self._since: float | None = None
        self._looked_at = float("-inf")
        # Not tried twice: what an exchange did not load, another will not load either.
        self._tried: frozenset[tuple[int, str]] = frozenset()

    def is_due(self, loaded: Serials, live: Serials, *, is_hidden: bool = False) -> bool:
        """Serials of the server certificates by slot: those that radiusd has loaded, and those of the tenants.

        `is_hidden`: one of the latter cannot be shown before, so there is nothing to wait for.
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
        if waited < WAIT_SECONDS or now < self._looked_at + LOOK_SECONDS:
            return False
        self._looked_at = now
        if waited < LONGEST_WAIT_SECONDS and not self._is_quiet(QUIET_SECONDS):
            return False
        self._tried, self._since = waiting, None
        return True
