"""What took long to make is given again, and tells of when it is; what did not is always new."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from api.slow_result_cache import SlowResultCache
from tests.waiting import PATIENCE_SECONDS


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


class Maker:
    """Takes `seconds` of the clock for each answer, and numbers them."""

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
def test_an_answer_is_kept_for_a_hundred_times_as_long_as_it_took(took: float, later: float, is_kept: bool) -> None:
    clock = Clock()
    kept, make = SlowResultCache[int](clock=clock), Maker(clock, took)
    first = kept.get("a", make)
    clock.now += later
    second = kept.get("a", make)
    assert (second.value == 1, second.as_of == first.as_of) == (is_kept, is_kept)
    assert kept.get("b", make).value == make.made


def test_who_asks_while_it_is_made_waits_for_it_or_takes_the_one_before() -> None:
    clock, begun, goes_on = Clock(), threading.Event(), threading.Event()
    kept, make = SlowResultCache[int](clock=clock), Maker(clock, 1)

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
        # Of days ago nobody has it, though another is made.
        clock.now += 259_200
        begun.clear()
        goes_on.clear()
        again = threads.submit(kept.get, "a", slowly)
        assert begun.wait(PATIENCE_SECONDS)
        waits = threads.submit(kept.get, "a", make)
        goes_on.set()
        assert again.result(10).value == waits.result(10).value == 3


@pytest.mark.parametrize("fails", [True, False])
def test_what_failed_or_was_made_fast_is_nobody_elses(fails: bool) -> None:
    clock, begun, goes_on = Clock(), threading.Event(), threading.Event()
    kept, make = SlowResultCache[int](clock=clock), Maker(clock, 0)

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


def test_of_very_many_those_are_forgotten_that_nobody_asks_for() -> None:
    clock = Clock()
    kept, make = SlowResultCache[int](clock=clock), Maker(clock, 6)
    for number in range(64):
        kept.get(number, make)
    assert kept.get(0, make).value == 1
    kept.get(64, make)
    assert (kept.get(0, make).value, kept.get(1, make).value) == (1, 66)
