"""Rate limit for wrong enrolment secrets. The counts of wrong secrets are in memory, so a restart resets them."""

import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable

from nac.certificates.enrolment.errors import TooManyGuesses
from nac.kit.ids import TenantId
from nac.kit.request_sources import get_source

_MAX_GUESSES = 10
_WINDOW_SECONDS = 600
_MAX_SOURCES = 10_000


class GuessLimiter:
    """Counts wrong secrets for each tenant and source address. If the table of counts is full, the limiter deletes the
    count of the source that was inactive longest."""

    def __init__(self, *, most: int = _MAX_GUESSES, clock: Callable[[], float] = time.monotonic) -> None:
        self._most = most
        self._clock = clock
        self._lock = threading.Lock()
        # For each tenant and source: start of the counting period, and number of wrong secrets in this period.
        self._counts: OrderedDict[tuple[TenantId, str], tuple[float, int]] = OrderedDict()

    def require(self, tenant_id: TenantId, address: str) -> None:
        """Raise TooManyGuesses if the source of `address` has reached the limit."""
        with self._lock:
            began, count = self._counts.get((tenant_id, get_source(address)), (0.0, 0))
            left = began + _WINDOW_SECONDS - self._clock()
            if count >= self._most and left > 0:
                raise TooManyGuesses(math.ceil(left))

    def note(self, tenant_id: TenantId, address: str) -> None:
        """Count a wrong secret from `address`."""
        key = (tenant_id, get_source(address))
        now = self._clock()
        with self._lock:
            began, count = self._counts.pop(key, (now, 0))
            if now - began >= _WINDOW_SECONDS:
                began, count = now, 0
            self._counts[key] = (began, count + 1)
            if len(self._counts) > _MAX_SOURCES:
                self._counts.popitem(last=False)
