"""Cache of results that took longer than 0.1 s to compute. Each result contains the time at which it was computed.

Each process has a separate cache.
"""

import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import datetime
from threading import Lock
from typing import Generic, TypeVar

from nac.kit.clock import utc_now

# Slower results are cached for a hundred times their duration, so that they cost at most a hundredth of the time.
_SLOW_SECONDS = 0.1
_RETENTION_FACTOR = 100
_MAX_RETENTION_SECONDS = 600.0
_MAX_ENTRIES = 64
# Extra lifetime while a new result is computed.
_GRACE_SECONDS = 60.0

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class CachedResult(Generic[Value]):
    value: Value
    # The value includes all data until this time.
    as_of: datetime
    # End of the value's lifetime, as a time of the cache's clock; None if the value is not cached.
    until: float | None


class SlowResultCache(Generic[Value]):
    """Thread-safe cache. With more than _MAX_ENTRIES results, the cache drops the least recently used result."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._kept: OrderedDict[Hashable, CachedResult[Value]] = OrderedDict()
        self._making: dict[Hashable, Future[CachedResult[Value] | None]] = {}
        self._lock = Lock()

    def get(self, key: Hashable, make: Callable[[], Value]) -> CachedResult[Value]:
        """Return the cached result, or compute a new result.

        Only one caller computes a result; other callers wait or get the previous result.
        """
        with self._lock:
            kept, others = self._kept.get(key), self._making.get(key)
            if kept is not None:
                self._kept.move_to_end(key)
                spare = _GRACE_SECONDS if others is not None else 0
                if kept.until is not None and self._clock() < kept.until + spare:
                    return kept
            if others is None:
                mine: Future[CachedResult[Value] | None] = Future()
                self._making[key] = mine
        if others is not None:
            made = others.result()
            # The other caller may have computed a fast result before this request began.
            return self._made(make) if made is None or made.until is None else made
        answer = None
        try:
            answer = self._made(make)
            return answer
        finally:
            self._settle(key, answer)
            mine.set_result(answer)

    def _made(self, make: Callable[[], Value]) -> CachedResult[Value]:
        began, as_of = self._clock(), utc_now()
        value = make()
        now = self._clock()
        took = now - began
        return CachedResult(
            value, as_of, now + min(_RETENTION_FACTOR * took, _MAX_RETENTION_SECONDS) if took > _SLOW_SECONDS else None
        )

    def _settle(self, key: Hashable, answer: CachedResult[Value] | None) -> None:
        """Store the result.

        If `answer` is None, the computation failed, and the cache also drops the previous result.
        """
        with self._lock:
            del self._making[key]
            self._kept.pop(key, None)
            if answer is not None and answer.until is not None:
                self._kept[key] = answer
                if len(self._kept) > _MAX_ENTRIES:
                    self._kept.popitem(last=False)
