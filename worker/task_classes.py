"""Base classes of tasks, which set the queue, time limits and retries."""

import logging
import math
from datetime import timedelta
from typing import Final
from uuid import UUID

from celery import Task
from sqlalchemy import Engine

from nac.core.jobs import runner
from nac.core.jobs.runner import JobHandler, JobRun
from nac.kit.errors import Overtaken, Unavailable
from nac.kit.sealing import Unseal
from worker.constants import JOBS_QUEUE, LONG_JOB_SECONDS, RESEND_SECONDS

_log = logging.getLogger(__name__)
_RETRY_SECONDS: Final = (5, 30, 300)


class UpkeepTask(Task):  # type: ignore[misc]  # Celery has no types
    """A task that runs rarely, so Celery retries the task after an outage."""

    abstract = True
    autoretry_for = (Unavailable,)
    max_retries = 5
    retry_backoff = True
    retry_backoff_max = 600


class JobTask(Task):  # type: ignore[misc]  # Celery has no types
    """Runs a job that is a row of `jobs`.

    The row decides whether the job runs, because Redis may lose the job's message or deliver it twice.
    """

    abstract = True
    queue = JOBS_QUEUE
    # A handler with a single transaction may take long. The handler renews the job's lease with each progress report.
    soft_time_limit = LONG_JOB_SECONDS
    time_limit = LONG_JOB_SECONDS + 30
    max_retries = len(_RETRY_SECONDS)
    handler: JobHandler

    def run_row(self, job_id: UUID, *, unseal: Unseal, app_engine: Engine, engine: Engine | None = None) -> None:
        run = runner.take_job(job_id, unseal=unseal, app_engine=app_engine, engine=engine)
        if run is None:
            # The job was cancelled, its message was delivered twice, or too many jobs run. If the row is still queued,
            # a message is sent again.
            return
        try:
            runner.execute_job(run, self.handler)
        except Exception as exc:
            self._retry_or_fail(run, exc)

    def _retry_or_fail(self, run: JobRun, exc: Exception) -> None:
        """Retry the job after a delay. After a few attempts, mark the job as failed.

        Attempts during an outage of a service do not count, because the job waits for the service.
        """
        is_endless = isinstance(exc, Unavailable)
        retries = self.request.retries
        if run.job.failures >= self.max_retries and not is_endless:
            _log.error("%s failed", run)
            runner.fail_job(run, exc)
            raise exc
        if is_endless:
            _log.warning("%s: %s", run, exc)
        elif not isinstance(exc, Overtaken):
            _log.error("%s failed and is retried", run, exc_info=exc)
        countdown = _RETRY_SECONDS[min(retries, self.max_retries - 1)]
        resend_seconds = countdown + RESEND_SECONDS
        runner.postpone_job(run, exc, after=timedelta(seconds=resend_seconds))
        # Celery also counts the attempts during an outage, so its own limit does not apply.
        raise self.retry(exc=exc, countdown=countdown, expires=resend_seconds, max_retries=math.inf)
