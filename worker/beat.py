"""Beat is a process of its own beside those that do jobs, and Celery does not look after it: without it, nothing would
begin any more."""

import ctypes
import logging
import signal
from typing import Any, Final

from celery import bootsteps, signals
from celery.beat import EmbeddedService

_LOOK_SECONDS: Final = 2.0
# prctl(2).
_PR_SET_PDEATHSIG: Final = 1
_log = logging.getLogger(__name__)


@signals.beat_embedded_init.connect
def _end_with_the_worker(**_: Any) -> None:  # noqa: ANN401 -- Celery's signal arguments
    """Of a worker that was killed it would go on beside the next one's."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


class BeatAgain(bootsteps.StartStopStep):  # type: ignore[misc]  # Celery has no types
    """Starts beat anew where it has died: by the kernel for want of memory, or at a disk that was full, say."""

    requires = ("celery.worker.components:Timer", "celery.worker.components:Beat")

    def __init__(self, worker: Any, schedule_filename: str | None = None, **given: object) -> None:  # noqa: ANN401
        super().__init__(worker, **given)
        self._schedule = schedule_filename
        self._timer: Any = None

    def start(self, worker: Any) -> None:  # noqa: ANN401 -- Celery's worker, of no type
        if worker.beat is not None:
            self._timer = worker.timer.call_repeatedly(_LOOK_SECONDS, self._look, (worker,))

    def stop(self, worker: Any) -> None:  # noqa: ANN401 -- Celery's worker, of no type
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            # Celery stops the first one.
            worker.beat.stop()

    def _look(self, worker: Any) -> None:  # noqa: ANN401 -- Celery's worker, of no type
        if worker.beat.is_alive():
            return
        _log.error("beat has died (%s): it is started again", worker.beat.exitcode)
        worker.beat = EmbeddedService(worker.app, schedule_filename=self._schedule)
        worker.beat.start()
