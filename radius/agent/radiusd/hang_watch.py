"""Kills a radiusd that hangs. Kills this agent if one thread of the agent blocks all others.

A supervisor restarts a process that has ended, but not a process that hangs. So far, radiusd and the agent have hung
only because of damaged files.
"""

import faulthandler
import logging
import threading
import time
from collections.abc import Callable

from radius.agent.alarms import Alarms
from radius.agent.radiusd.replacement import Radiusd

log = logging.getLogger(__name__)

# radiusd counts as hanging after this time without a response to Status-Server and without a new journal record.
RADIUSD_SILENCE_SECONDS = 20.0
WATCHDOG_INTERVAL_SECONDS = 1.0
# If one thread blocks all others for this time, the agent ends. The time is longer than any normal call that holds
# Python's interpreter lock.
AGENT_HANG_SECONDS = 30.0


class HangWatch:
    def __init__(
        self,
        radiusd: Radiusd,
        alarms: Alarms,
        *,
        journal_size: Callable[[], int],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._radiusd = radiusd
        self._alarms = alarms
        self._journal_size = journal_size
        self._clock = clock
        self._silent_since: float | None = None
        # Process id of radiusd and size of the journal in bytes, when radiusd stopped responding.
        self._seen = (0, 0)

    def look(self, *, answers: bool) -> None:
        """Check radiusd. Call this method about once a second.

        `answers` means that radiusd has just answered Status-Server (RFC 5997).
        """
        running = self._radiusd.running
        if answers or running is None:
            self._silent_since = None
            return
        seen = running.pid, self._journal_size()
        if self._silent_since is None or seen != self._seen:
            self._silent_since, self._seen = self._clock(), seen
        elif self._clock() - self._silent_since >= RADIUSD_SILENCE_SECONDS:
            self._silent_since = None
            log.error("radiusd %d does not respond; restarting it", running.pid)
            self._alarms.report_event(
                "radiusd-hung", f"radiusd did not respond for {RADIUSD_SILENCE_SECONDS:.0f} s, so Admit restarted it."
            )
            self._radiusd.stop_hung(running)


def run_watchdog(stop: threading.Event) -> None:
    """Watch whether all threads of this process run.

    If a thread hangs, print the tracebacks of all threads and end the process.
    """
    try:
        while not stop.wait(WATCHDOG_INTERVAL_SECONDS):
            faulthandler.dump_traceback_later(AGENT_HANG_SECONDS, exit=True)
    finally:
        faulthandler.cancel_dump_traceback_later()
