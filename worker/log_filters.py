"""Log filters that shorten the log during outages of PostgreSQL or Redis."""

import logging
import time
from collections.abc import Callable

from celery.beat import SchedulingError

from nac.kit.errors import DatabaseUnavailable


def drop_outage_traceback(record: logging.LogRecord) -> bool:
    """Remove the traceback of a job that failed because of the database, so that the log entry takes one line.

    During an outage, several jobs fail each second. The tracebacks would displace all other lines within minutes.
    """
    if record.exc_info and isinstance(record.exc_info[1], DatabaseUnavailable):
        record.exc_info = None
    return True


class SchedulingErrorFilter:
    """Limits the log to one line a minute, without a traceback, about jobs that cannot be queued.

    During an outage, several due jobs fail each second, and each failure would log 150 lines.
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
        record.msg, record.args, record.exc_info = "Due jobs are waiting: %s", (error,), None
        return True
