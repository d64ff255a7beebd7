"""How much of one source may be open at a time."""

import logging
import time
from collections import Counter
from collections.abc import Callable

from nac.request_sources import get_source

_log = logging.getLogger("admit.api")
_LOG_INTERVAL_SECONDS = 60


class ConcurrencySlot:
    """One that is taken; to be given back once."""

    def __init__(self, give_back: Callable[[], None]) -> None:
        self._release_slot: Callable[[], None] | None = give_back

    def leave(self) -> None:
        """Again does nothing."""
        if self._release_slot is not None:
            self._release_slot()
            self._release_slot = None


class ConcurrencyLimit:
    """`most` for each source, 0 for any number, and `most_in_all`. Holds no more than is open. For one thread."""

    def __init__(
        self, most: int, *, what: str, most_in_all: int = 0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`what` is open, for the log."""
        self._most = most
        self._most_in_all = most_in_all
        self._what = what
        self._clock = clock
        self._taken: Counter[str] = Counter()
        self._in_all = 0
        self._logged_at = -float(_LOG_INTERVAL_SECONDS)

    def take(self, address: str) -> ConcurrencySlot | None:
        """None where there is no place for one more of where the address belongs to."""
        source = get_source(address)
        if self._most and self._taken[source] >= self._most:
            self._log(f"{self._most} {self._what} of {source} are open: more of it are refused")
            return None
        if self._most_in_all and self._in_all >= self._most_in_all:
            self._log(f"{self._in_all} {self._what} are open: more are refused")
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
        """Now and then: who floods the port is not to flood the log."""
        now = self._clock()
        if now - self._logged_at >= _LOG_INTERVAL_SECONDS:
            self._logged_at = now
            _log.warning("%s", sentence)
