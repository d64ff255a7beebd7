"""Waits for conditions with a deadline, never for a fixed time."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

# The time limit of work that takes a second or two on an idle machine.
PATIENCE_SECONDS = 40.0
_PAUSE_SECONDS = 0.03
# Long waits poll less often, because polling uses CPU time that other processes need.
_PAUSE_SHARE = 0.05


def until(condition: Callable[[], T], what: str, *, seconds: float = PATIENCE_SECONDS) -> T:
    """The first true value of `condition`. Raises AssertionError with `what` on a time-out.

    An OSError of a restarting process counts as false.
    """
    begun = time.monotonic()
    deadline = begun + seconds
    while True:
        trouble = ""
        try:
            found = condition()
            if found:
                return found
        except OSError as exc:
            trouble = f": {exc}"
        assert time.monotonic() < deadline, f"not within {seconds:g} s: {what}{trouble}"
        time.sleep(max(_PAUSE_SECONDS, _PAUSE_SHARE * (time.monotonic() - begun)))


def next_second() -> None:
    """Wait for the next second of the clock, so that caches of one second expire."""
    time.sleep(1.02 - time.time() % 1)


def seconds_until(condition: Callable[[], object], what: str, *, seconds: float = PATIENCE_SECONDS) -> float:
    started = time.monotonic()
    until(condition, what, seconds=seconds)
    return time.monotonic() - started
