"""Limits on concurrent connections or requests of a source, and on tests of servers that tenants configure."""

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Final

from nac.kit.errors import AdmitError
from nac.kit.ids import TenantId
from nac.kit.request_sources import get_source

_log = logging.getLogger("admit.api")
_LOG_INTERVAL_SECONDS = 60
_MAX_TESTS_PER_TENANT: Final = 2
_MAX_TESTS: Final = 4
_running_tests: Counter[TenantId] = Counter()
_tests_lock = Lock()


class ConcurrencySlot:
    """A counted connection or request of a source (client network), which counts until `leave` is called."""

    def __init__(self, give_back: Callable[[], None]) -> None:
        self._release_slot: Callable[[], None] | None = give_back

    def leave(self) -> None:
        """Stop counting the connection or request. Further calls do nothing."""
        if self._release_slot is not None:
            self._release_slot()
            self._release_slot = None


class ConcurrencyLimit:
    """Limits the connections or requests of each source, and of all sources. 0 means no limit. Not thread-safe."""

    def __init__(
        self, most: int, *, what: str, most_in_all: int = 0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Log messages contain `what`, which is "connections" or "requests"."""
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
            self._log(
                f"{source} has {self._most} {self._what} open, which is the limit: rejecting further {self._what}"
            )
            return None
        if self._most_in_all and self._in_all >= self._most_in_all:
            self._log(f"{self._in_all} {self._what} are open, which is the limit: rejecting further {self._what}")
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


class TooManyTests(AdmitError):
    """Too many tests are running."""

    status = 429
    retry_after_seconds = 5


@contextmanager
def limit_server_tests(tenant_id: TenantId) -> Iterator[None]:
    """Limit the number of running tests, because each test uses a thread until the server responds.

    Raises TooManyTests.
    """
    with _tests_lock:
        if _running_tests[tenant_id] >= _MAX_TESTS_PER_TENANT or _running_tests.total() >= _MAX_TESTS:
            raise TooManyTests(remedy="Wait until the running tests finish, then try again.")
        _running_tests[tenant_id] += 1
    try:
        yield
    finally:
        with _tests_lock:
            _running_tests[tenant_id] -= 1
            if not _running_tests[tenant_id]:
                del _running_tests[tenant_id]
