"""Waiting for conditions, never for time: what must come true by itself, and by when."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

# Patience for what takes a second or two on a quiet machine.
PATIENCE_SECONDS = 40.0
_PAUSE_SECONDS = 0.03
# What is waited for long is looked for less often: a look takes a processor that others need.
_PAUSE_SHARE = 0.05


def until(condition: Callable[[], T], what: str, *, seconds: float = PATIENCE_SECONDS) -> T:
    """The first true value of `condition`; AssertionError with `what` where none comes in time.

    What a process that is just coming back says wrongly (OSError) counts as not yet.
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
    """Into the next one of the clock: what is kept for a second is not kept any more."""
    time.sleep(1.02 - time.time() % 1)


def seconds_until(condition: Callable[[], object], what: str, *, seconds: float = PATIENCE_SECONDS) -> float:
    started = time.monotonic()
    until(condition, what, seconds=seconds)
    return time.monotonic() - started
