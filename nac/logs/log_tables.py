"""The logs whose rows retention deletes, and the default limits of their retention.

Nobody can delete from the audit log, not even retention. The audit log grows with the actions of people, not with the
number of devices.
"""

from dataclasses import dataclass
from typing import Literal, get_args

LogName = Literal["auth", "accounting", "sessions", "usage", "coa"]
LOG_NAMES: tuple[LogName, ...] = get_args(LogName)
# Logs that can be exported: all except CoA-Requests and Disconnect-Requests.
EXPORTED_LOGS: tuple[LogName, ...] = ("auth", "accounting", "sessions", "usage")
PARTITIONED_LOGS: tuple[LogName, ...] = EXPORTED_LOGS
# Minimum retention in days, because the partitions of the last days can still receive rows.
MIN_DAYS = 2


@dataclass(frozen=True, slots=True)
class LogLimits:
    """The platform's limits for a log: minimum, default and maximum days, and maximum bytes (None: no maximum)."""

    floor_days: int
    default_days: int
    ceiling_days: int
    ceiling_bytes: int | None = None


# The floors of sessions and usage cover the previous month, because customers use these logs for billing.
DEFAULT_LIMITS: dict[LogName, LogLimits] = {
    "auth": LogLimits(7, 90, 730),
    "accounting": LogLimits(7, 90, 730),
    "sessions": LogLimits(62, 365, 1825),
    "usage": LogLimits(62, 400, 1825),
    "coa": LogLimits(7, 90, 365),
}
