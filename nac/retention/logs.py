"""The logs that are kept for a time: what they are called, and the limits that the product comes with.

The audit log is none of them. It tells who changed what, these settings and holds included, so it must outlive what it
tells of; nobody can delete from it, and it grows with what people do, not with what devices do.
"""

from dataclasses import dataclass
from typing import Literal, get_args

LogName = Literal["auth", "accounting", "sessions", "usage", "coa"]
LOG_NAMES: tuple[LogName, ...] = get_args(LogName)
# Requests to NASes have no rows that somebody else would want.
EXPORTED: tuple[LogName, ...] = ("auth", "accounting", "sessions", "usage")
PARTITIONED: tuple[LogName, ...] = EXPORTED
# Partitions of younger days are still written to.
LEAST_DAYS = 2


@dataclass(frozen=True, slots=True)
class Limits:
    """Days that a tenant may choose, and what it has where it does not; `ceiling_bytes` None for no ceiling."""

    floor_days: int
    default_days: int
    ceiling_days: int
    ceiling_bytes: int | None = None


# Sessions and usage are what is billed by: the month before the current one must be there whole.
DEFAULT_LIMITS: dict[LogName, Limits] = {
    "auth": Limits(7, 90, 730),
    "accounting": Limits(7, 90, 730),
    "sessions": Limits(62, 365, 1825),
    "usage": Limits(62, 400, 1825),
    "coa": Limits(7, 90, 365),
}
