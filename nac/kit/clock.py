"""Current time. All other modules must use this module to read the wall clock."""

import time
from datetime import UTC, datetime


def utc_now() -> datetime:
    return datetime.now(UTC)


def epoch_microseconds() -> int:
    return time.time_ns() // 1000


def epoch_seconds() -> int:
    return time.time_ns() // 1_000_000_000
