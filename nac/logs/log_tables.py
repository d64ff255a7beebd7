"""The logs with retention, and the product's default limits.

The audit log is not among them. It records all changes, including those of retention, so it must outlive the logs.
Nobody can delete from it, and it grows with people's actions, not with devices.
"""

from dataclasses import dataclass
from typing import Literal, get_args

LogName = Literal["auth", "accounting", "sessions", "usage", "coa"]
LOG_NAMES: tuple[LogName, ...] = get_args(LogName)
# Requests to NASes are not exported.
EXPORTED_LOGS: tuple[LogName, ...] = ("auth", "accounting", "sessions", "usage")
PARTITIONED_LOGS: tuple[LogName, ...] = EXPORTED_LOGS
# Partitions of younger days can still receive rows.
MIN_DAYS = 2


@dataclass(frozen=True, slots=True)
class LogLimits:
    """Allowed days and the default; `ceiling_bytes` None means no ceiling."""

    floor_days: int
    default_days: int
    ceiling_days: int
    ceiling_bytes: int | None = None


# Billing uses sessions and usage, so the previous month must be complete.
DEFAULT_LIMITS: dict[LogName, LogLimits] = {
    "auth": LogLimits(7, 90, 730),
    "accounting": LogLimits(7, 90, 730),
    "sessions": LogLimits(62, 365, 1825),
    "usage": LogLimits(62, 400, 1825),
    "coa": LogLimits(7, 90, 365),
}
