"""Slow responses are cached together with their time. Fast responses are always computed."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from api.slow_result_cache import SlowResultCache
from tests.polling import PATIENCE_SECONDS


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


class NumberedResponses:
    """Advances the clock by `seconds` for each response, and numbers the responses."""

    def __init__(self, clock: Clock, seconds: float) -> None:
        self.made, self._clock, self.seconds = 0, clock, seconds

    def __call__(self) -> int:
        self.made += 1
        self._clock.now += self.seconds
        return self.made


@pytest.mark.parametrize(
    ("took", "later", "is_kept"),
    [(0.09, 0, False), (0.5, 49, True), (0.5, 51, False), (60, 599, True), (60, 601, False)],
)
def test_response_is_cached_100_times_its_duration(took: float, later: float, is_kept: bool) -> None:
    clock = Clock()
    kept, make = SlowResultCache[int](clock=clock), NumberedResponses(clock, took)
    first = kept.get("a", make)
    clock.now += later
    second = kept.get("a", make)
    assert (second.value == 1, second.as_of == first.as_of) == (is_kept, is_kept)
    assert kept.get("b", make).value == make.made


def test_concurrent_caller_waits_or_gets_the_stale_response() -> None:
    clock, begun, goes_on = Clock(), threading.Event(), threading.Event()
    kept, make = SlowResultCache[int](clock=clock), NumberedResponses(clock, 1)

    def slowly() -> int:
        begun.set()
        assert goes_on.wait(PATIENCE_SECONDS)
        return make()

    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(kept.get, "a", slowly)
        assert begun.wait(PATIENCE_SECONDS)
        waits = threads.submit(kept.get, "a", make)
        goes_on.set()
        assert (first.result(10).value, waits.result(10).value, make.made) == (1, 1, 1)
        clock.now += 101
        begun.clear()
        goes_on.clear()
        again = threads.submit(kept.get, "a", slowly)
        assert begun.wait(PATIENCE_SECONDS)
        assert kept.get("a", make).value == 1
        goes_on.set()
        assert again.result(10).value == kept.get("a", make).value == 2
        # A response that is days old is never returned, even during the computation of a new response.
        clock.now += 259_200
        begun.clear()
        goes_on.clear()
        again = threads.submit(kept.get, "a", slowly)
        assert begun.wait(PATIENCE_SECONDS)
        waits = threads.submit(kept.get, "a", make)
        goes_on.set()
        assert again.result(10).value == waits.result(10).value == 3


@pytest.mark.parametrize("fails", [True, False])
def test_failed_and_fast_responses_are_not_shared(fails: bool) -> None:
    clock, begun, goes_on = Clock(), threading.Event(), threading.Event()
    kept, make = SlowResultCache[int](clock=clock), NumberedResponses(clock, 0)

    def first() -> int:
        begun.set()
        assert goes_on.wait(PATIENCE_SECONDS)
        if fails:
            raise ValueError
        return make()

    with ThreadPoolExecutor(2) as threads:
        asked = threads.submit(kept.get, "a", first)
        assert begun.wait(PATIENCE_SECONDS)
        waits = threads.submit(kept.get, "a", make)
        goes_on.set()
        assert isinstance(asked.exception(10), ValueError) == fails
        assert waits.result(10).value == make.made == (1 if fails else 2)
    assert kept.get("a", make).value == make.made


def test_unused_cache_entries_are_evicted() -> None:
    clock = Clock()
    kept, make = SlowResultCache[int](clock=clock), NumberedResponses(clock, 6)
    for number in range(64):
        kept.get(number, make)
    assert kept.get(0, make).value == 1
    kept.get(64, make)
    assert (kept.get(0, make).value, kept.get(1, make).value) == (1, 66)
