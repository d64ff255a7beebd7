"""The logs that are kept for a time: what they are called, and the limits that the product comes with.

The audit log is none of them. It tells who changed what, these settings and holds included, so it must outlive what it
tells of; nobody can delete from it, and it grows with what people do, not with what devices do.
"""

from dataclasses import dataclass
from typing import Literal, get_args

LogName = Literal["auth", "accounting", "sessions", "usage", "coa"]
LOG_NAMES: tuple[LogName, ...] = get_args(LogName)
# Requests to NASes have no rows that somebody else would want.
EXPORTED_LOGS: tuple[LogName, ...] = ("auth", "accounting", "sessions", "usage")
PARTITIONED_LOGS: tuple[LogName, ...] = EXPORTED_LOGS
# Partitions of younger days are still written to.
MIN_DAYS = 2


@dataclass(frozen=True, slots=True)
class LogLimits:
    """Days that a tenant may choose, and what it has where it does not; `ceiling_bytes` None for no ceiling."""

    floor_days: int
    default_days: int
    ceiling_days: int
    ceiling_bytes: int | None = None


# Sessions and usage are what is billed by: the month before the current one must be there whole.
DEFAULT_LIMITS: dict[LogName, LogLimits] = {
    "auth": LogLimits(7, 90, 730),
    "accounting": LogLimits(7, 90, 730),
    "sessions": LogLimits(62, 365, 1825),
    "usage": LogLimits(62, 400, 1825),
    "coa": LogLimits(7, 90, 365),
}
