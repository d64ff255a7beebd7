"""Limits on concurrent connections or requests of a source."""

import logging
import time
from collections import Counter
from collections.abc import Callable

from nac.kit.request_sources import get_source

_log = logging.getLogger("admit.api")
_LOG_INTERVAL_SECONDS = 60


class ConcurrencySlot:
    """A counted connection or request of a source. It counts until `leave` is called."""

    def __init__(self, give_back: Callable[[], None]) -> None:
        self._release_slot: Callable[[], None] | None = give_back

    def leave(self) -> None:
        """Stop counting. Further calls do nothing."""
        if self._release_slot is not None:
            self._release_slot()
            self._release_slot = None


class ConcurrencyLimit:
    """Limits the connections or requests of each source, and of all sources. 0 means no limit. Not thread-safe."""

    def __init__(
        self, most: int, *, what: str, most_in_all: int = 0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`what` is "connections" or "requests", for the log."""
        self._most = most
        self._most_in_all = most_in_all
        self._what = what
        self._clock = clock
        self._taken: Counter[str] = Counter()
        self._in_all = 0
        self._logged_at = -float(_LOG_INTERVAL_SECONDS)

    def take(self, address: str) -> ConcurrencySlot | None:
        """Count a connection or request for the source of the address. Returns None if a limit is reached."""
        source = get_source(address)
        if self._most and self._taken[source] >= self._most:
            self._log(f"{source} has {self._most} {self._what} open: rejecting more")
            return None
        if self._most_in_all and self._in_all >= self._most_in_all:
            self._log(f"{self._in_all} {self._what} are open: rejecting more")
            return None
        self._taken[source] += 1
        self._in_all += 1
        return ConcurrencySlot(lambda: self._free(source))

    def _free(self, source: str) -> None:
        self._in_all -= 1
        self._taken[source] -= 1
        if not self._taken[source]:
            del self._taken[source]

    def _log(self, sentence: str) -> None:
        """Log at most once in _LOG_INTERVAL_SECONDS, so that floods do not fill the log."""
        now = self._clock()
        if now - self._logged_at >= _LOG_INTERVAL_SECONDS:
            self._logged_at = now
            _log.warning("%s", sentence)
