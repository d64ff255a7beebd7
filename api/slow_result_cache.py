"""Answers that took long to make, kept for as long as is right for that: who asks is told as of when they are.

Each process has its own. Fast results are not stored, so they are never outdated.
"""

import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import datetime
from threading import Lock
from typing import Generic, TypeVar

from nac.clock import utc_now

# What takes longer than that is kept a hundred times as long as it took, so that it costs a hundredth of the time.
_SLOW_SECONDS = 0.1
_RETENTION_FACTOR = 100
_MAX_RETENTION_SECONDS = 600.0
_MAX_ENTRIES = 64
# So much longer while it is made anew.
_GRACE_SECONDS = 60.0

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class CachedResult(Generic[Value]):
    value: Value
    # All that was there by then is in it.
    as_of: datetime
    # Until when (of the clock) it is given to others; None where it was made fast.
    until: float | None


class SlowResultCache(Generic[Value]):
    """For several threads. Of very many answers those are forgotten that nobody asked for the longest."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._kept: OrderedDict[Hashable, CachedResult[Value]] = OrderedDict()
        self._making: dict[Hashable, Future[CachedResult[Value] | None]] = {}
        self._lock = Lock()

    def get(self, key: Hashable, make: Callable[[], Value]) -> CachedResult[Value]:
        """Who asks first makes it; others wait for that, or take the one before it, which is a little too old then."""
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
            # What was made fast may be older than the question.
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
        """None where it could not be made: the one before it goes as well."""
        with self._lock:
            del self._making[key]
            self._kept.pop(key, None)
            if answer is not None and answer.until is not None:
                self._kept[key] = answer
                if len(self._kept) > _MAX_ENTRIES:
                    self._kept.popitem(last=False)
