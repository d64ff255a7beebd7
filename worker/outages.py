"""What the worker's log has of a time in which PostgreSQL does not answer."""

import logging

from nac.errors import DatabaseUnavailable


def without_traceback(record: logging.LogRecord) -> bool:
    """A filter: of a job that fails for the database's sake, one line is kept.

    Several fail in each second, and their tracebacks would push all else out of the log within minutes.
    """
    if record.exc_info and isinstance(record.exc_info[1], DatabaseUnavailable):
        record.exc_info = None
    return True
