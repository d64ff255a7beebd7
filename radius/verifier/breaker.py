"""Leaves a source alone that fails again and again, and tries it with one login now and then."""

import time
from collections.abc import Callable


class Breaker:
    """Closed while all is well; open for `seconds` after `failures` in a row; then half open: one login probes."""

    def __init__(self, *, failures: int, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._most = failures
        self._seconds = seconds
        self._clock = clock
        self._failed = 0
        self._open_until: float | None = None
        self._probing = False

    @property
    def is_open(self) -> bool:
        return self._open_until is not None

    def seconds_left(self) -> float:
        """Until the next probe; 0 where the source may be asked."""
        if self._open_until is None:
            return 0.0
        left = self._open_until - self._clock()
        return left if left > 0 else (0.0 if not self._probing else self._seconds)

    def enter(self) -> bool:
        """Whether a login may ask the source now. If so, `succeeded`, `failed` or `gave_up` must follow."""
        if self._open_until is None:
            return True
        if self._probing or self._clock() < self._open_until:
            return False
        self._probing = True
        return True

    def succeeded(self) -> None:
        self._failed = 0
        self._open_until = None
        self._probing = False

    def failed(self) -> None:
        self._failed += 1
        self._probing = False
        if self._open_until is not None or self._failed >= self._most:
            self._open_until = self._clock() + self._seconds

    def gave_up(self) -> None:
        """The login ended before it was known."""
        self._probing = False
