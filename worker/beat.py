"""Restarts Celery's scheduler process (beat) if beat dies.

Celery itself does not restart beat. Without beat, no job would start any more.
"""

import ctypes
import logging
import signal
from typing import Any, Final

from celery import bootsteps, signals
from celery.beat import EmbeddedService

_CHECK_INTERVAL_SECONDS: Final = 2.0
# Constant of prctl(2).
_PR_SET_PDEATHSIG: Final = 1
_log = logging.getLogger(__name__)


@signals.beat_embedded_init.connect
def _stop_with_worker(**_: Any) -> None:  # noqa: ANN401 -- Celery's signal arguments
    """End beat if the worker is killed. Otherwise this beat would continue beside the beat of the next worker."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


class BeatRestarter(bootsteps.StartStopStep):  # type: ignore[misc]  # Celery has no types
    """Restarts beat if beat has died, for example by the OOM killer or because of a full disk."""

    requires = ("celery.worker.components:Timer", "celery.worker.components:Beat")

    def __init__(self, worker: Any, schedule_filename: str | None = None, **arguments: object) -> None:  # noqa: ANN401
        super().__init__(worker, **arguments)
        self._schedule = schedule_filename
        self._timer: Any = None

    def start(self, worker: Any) -> None:  # noqa: ANN401 -- Celery's worker, of no type
        if worker.beat is not None:
            self._timer = worker.timer.call_repeatedly(_CHECK_INTERVAL_SECONDS, self._look, (worker,))

    def stop(self, worker: Any) -> None:  # noqa: ANN401 -- Celery's worker, of no type
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            # Celery stops only the beat that it has started itself.
            worker.beat.stop()

    def _look(self, worker: Any) -> None:  # noqa: ANN401 -- Celery's worker, of no type
        if worker.beat.is_alive():
            return
        _log.error("beat has died (%s): restarting it", worker.beat.exitcode)
        worker.beat = EmbeddedService(worker.app, schedule_filename=self._schedule)
        worker.beat.start()
