"""What the worker's log has of a time in which PostgreSQL or Redis does not answer."""

import logging
import time
from collections.abc import Callable

from celery.beat import SchedulingError

from nac.errors import DatabaseUnavailable


def without_traceback(record: logging.LogRecord) -> bool:
    """A filter: of a job that fails for the database's sake, one line is kept.

    Several fail in each second, and their tracebacks would push all else out of the log within minutes.
    """
    if record.exc_info and isinstance(record.exc_info[1], DatabaseUnavailable):
        record.exc_info = None
    return True


class OnceAMinute:
    """A filter: of jobs that cannot be passed on, one line in a minute, without a traceback.

    Each that is due fails, some in each second, with 150 lines.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._next = 0.0

    def __call__(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        if not isinstance(error, SchedulingError):
            return True
        if self._clock() < self._next:
            return False
        self._next = self._clock() + 60
        record.msg, record.args, record.exc_info = "Jobs wait, which are due: %s", (error,), None
        return True
