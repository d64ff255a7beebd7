"""Pauses requests to an identity source that fails repeatedly, and tests the source with single logins."""

import time
from collections.abc import Callable


class Breaker:
    """Circuit breaker of an identity source. In normal operation, the breaker is closed and allows all logins.

    After `failures` failures in a row, the breaker is open for `seconds` seconds and allows no login. After this time,
    the breaker is half open: it allows one login, which tests the source.
    """

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
        """Seconds until the next test; 0 if requests are allowed."""
        if self._open_until is None:
            return 0.0
        left = self._open_until - self._clock()
        return left if left > 0 else (0.0 if not self._probing else self._seconds)

    def enter(self) -> bool:
        """Whether a login may use the source now. If the result is true, call `succeeded`, `failed` or `gave_up`
        after the login."""
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
        """Record that the login ended without a result about the source."""
        self._probing = False
