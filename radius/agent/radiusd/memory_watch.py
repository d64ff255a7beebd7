"""Watches radiusd's memory, and restarts radiusd before the machine runs out of memory.

Most memory growth comes from unfinished EAP conversations, which radiusd drops after 30 s. Lasting growth is a
leak.
"""

import logging
import threading
import time
from collections.abc import Callable

from radius.agent.alarms import Alarms
from radius.agent.radiusd.memory import ALARM_SHARE, ProcessMemory, get_process_memory, proportional_bytes
from radius.agent.radiusd.replacement import Radiusd

log = logging.getLogger(__name__)

CHECK_INTERVAL_SECONDS = 1.0
PROPORTIONAL_SECONDS = 60.0
# Seconds above the limit before a restart, longer than a burst of successful logins takes.
ABOVE_LIMIT_SECONDS = 10.0
# Minimum seconds between two restarts, in case a new radiusd at once uses as much memory.
MIN_EXCHANGE_INTERVAL_SECONDS = 60.0


class MemoryWatch:
    def __init__(
        self,
        radiusd: Radiusd,
        alarms: Alarms,
        *,
        limit_bytes: int,
        is_quiet: Callable[[float], bool],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._radiusd = radiusd
        self._alarms = alarms
        self._limit = limit_bytes
        self._is_quiet = is_quiet
        self._clock = clock
        self._latest: ProcessMemory | None = None
        self._proportional = 0
        self._proportional_due = float("-inf")
        self._above_since: float | None = None
        self._not_before = float("-inf")

    def run(self, stop: threading.Event) -> None:
        while not stop.wait(CHECK_INTERVAL_SECONDS):
            self.look()

    def document(self) -> dict[str, int]:
        """Memory figures for status.json, in bytes."""
        latest = self._latest or ProcessMemory(0, 0)
        return {
            "rss_bytes": latest.resident_bytes,
            "pss_bytes": self._proportional,
            "anonymous_bytes": latest.anonymous_bytes,
            "limit_bytes": self._limit,
        }

    def look(self) -> None:
        running = self._radiusd.running
        self._latest = memory = get_process_memory(running.pid) if running is not None else None
        if running is None or memory is None:
            self._above_since = None
            return
        now = self._clock()
        if now >= self._proportional_due:
            self._proportional_due = now + PROPORTIONAL_SECONDS
            self._proportional = proportional_bytes(running.pid)
        # Compare only memory of the process itself: the replica is a mapped file, whose pages the kernel can drop.
        self._judge(memory.anonymous_bytes, now)

    def _judge(self, held: int, now: float) -> None:
        if held < ALARM_SHARE * self._limit:
            self._alarms.clear("memory-high")
        else:
            self._alarms.report(
                "memory-high",
                f"radiusd uses {_format_megabytes(held)} of memory. Above {_format_megabytes(self._limit)} "
                "(ADMIT_CELL_MEMORY_BYTES) Admit restarts it.",
            )
        if held <= self._limit:
            self._above_since = None
            return
        if self._above_since is None:
            self._above_since = now
        if now >= max(self._above_since + ABOVE_LIMIT_SECONDS, self._not_before):
            self._renew(held)

    def _renew(self, held: int) -> None:
        log.error("radiusd uses %s of memory: restarting it", _format_megabytes(held))
        trouble = self._radiusd.renew(is_quiet=self._is_quiet)
        self._above_since = None
        self._proportional_due = float("-inf")
        self._not_before = self._clock() + MIN_EXCHANGE_INTERVAL_SECONDS
        self._alarms.report_event(
            "memory-exchange",
            f"radiusd used {_format_megabytes(held)} of memory and "
            + (f"could not be restarted: {trouble}" if trouble else "was restarted."),
        )


def _format_megabytes(count: int) -> str:
    return f"{count / (1 << 20):.0f} MB"
