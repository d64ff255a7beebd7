"""Raises an alarm if radiusd drops packets because a tenant sends more packets than its limit allows."""

import time
from collections.abc import Callable, Mapping

from radius.agent.alarms import Alarms

# Seconds that the alarm stays active after the last minute with such drops.
ALARM_SECONDS = 600.0
# Drops within a minute that raise the alarm. radiusd's counter also includes requests without Message-Authenticator, at
# most 200 a minute for each slot.
MIN_DROPPED, MINUTE_SECONDS = 10_000, 60.0
_CODE = "packets-over-limit"
_DETAIL = (
    "radiusd dropped {count} packets within a minute, because a tenant sends more than {limit} packets a second. "
    "NASes resend the dropped packets. Find the tenant with most decisions or accounting records, then the NAS "
    "or device that floods. If the load is real, raise ADMIT_CELL_TENANT_PACKETS_PER_SECOND or move the tenant to "
    "its own cell."
)


class PacketLimitWatch:
    def __init__(self, alarms: Alarms, limit: int, clock: Callable[[], float] = time.monotonic) -> None:
        """Create the watch. `limit` is in packets per second; 0 means no limit."""
        self._alarms, self._limit, self._clock = alarms, limit, clock
        self._last = 0
        # Count of dropped packets at the start of the current minute, and time of that start.
        self._count, self._since = 0, clock()
        self._told_at: float | None = None

    def look(self, counted: Mapping[str, int]) -> None:
        """Check the counters of radius.agent.radiusd.probe.get_statistics.

        Each new radiusd begins its counters at 0.
        """
        if not self._limit:
            return
        now = self._clock()
        if now - self._since >= MINUTE_SECONDS:
            self._count, self._since = 0, now
        # radiusd counts a repeated packet as dropped, too.
        count = counted.get
        total = sum(count(f"{kind}_dropped", 0) - count(f"{kind}_duplicates", 0) for kind in ("auth", "acct"))
        new, self._last = total - self._last if total >= self._last else total, total
        self._count += max(new, 0)
        if self._count >= MIN_DROPPED:
            self._told_at = now
            self._alarms.report(_CODE, _DETAIL.format(count=self._count, limit=self._limit))
        elif self._told_at is not None and now - self._told_at >= ALARM_SECONDS:
            self._told_at = None
            self._alarms.clear(_CODE)
