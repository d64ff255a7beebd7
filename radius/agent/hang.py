"""Ends what hangs: radiusd that answers nobody, and this agent where one of its threads keeps all others from work.

Neither has been seen but with damaged files. A process that has died is started again by whoever looks after it; one
that hangs would be left to hang.
"""

import faulthandler
import logging
import threading
import time
from collections.abc import Callable

from radius.agent.alarms import Alarms
from radius.agent.radiusd import Radiusd

log = logging.getLogger(__name__)

# Unanswered Status-Server requests for so long, while the journal does not grow.
RADIUSD_SECONDS = 20.0
PULSE_SECONDS = 1.0
# Longer than any call that holds the interpreter's lock.
AGENT_SECONDS = 30.0


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
        # Process id and the journal's bytes, when the silence began.
        self._seen = (0, 0)

    def look(self, *, answers: bool) -> None:
        """To be called about once a second, with whether radiusd answered Status-Server (RFC 5997) just now."""
        running = self._radiusd.running
        if answers or running is None:
            self._silent_since = None
            return
        seen = running.pid, self._journal_size()
        if self._silent_since is None or seen != self._seen:
            self._silent_since, self._seen = self._clock(), seen
        elif self._clock() - self._silent_since >= RADIUSD_SECONDS:
            self._silent_since = None
            log.error("radiusd %d answers nobody; it is ended and started again", running.pid)
            self._alarms.tell_event("radiusd-hung", f"radiusd answered nobody for {RADIUSD_SECONDS:.0f} s: ended.")
            self._radiusd.end_hung(running)


def keep_pulse(stop: threading.Event) -> None:
    """While all threads of this process get their turn; where they do not, it says where each is, and ends."""
    try:
        while not stop.wait(PULSE_SECONDS):
            faulthandler.dump_traceback_later(AGENT_SECONDS, exit=True)
    finally:
        faulthandler.cancel_dump_traceback_later()
