"""Jobs that clients start. Each kind of job has a task. Another task sends the Celery messages of these jobs."""

from datetime import timedelta
from functools import cache
from uuid import UUID

from celery import current_app, shared_task
from sqlalchemy import Engine

from nac.core.jobs import runner, service
from nac.core.jobs.runner import JobHandler, JobRun, MultiTransactionHandler
from nac.kit.db import PlatformScope, limit_waiting, make_engine, session_scope
from nac.kit.secrets import MasterKeyFile, Sealer
from nac.kit.settings import load_settings
from worker.constants import LONG_STATEMENT_SECONDS, RESEND_SECONDS
from worker.handlers import JOB_HANDLERS
from worker.priority import lower_connection_priority
from worker.task_classes import JobTask

_UNKNOWN_KIND = "jobs.unknown"


@shared_task(name="jobs.enqueue")
def enqueue() -> None:
    """Send a message for each due job.

    The dispatcher starts this task only after the commit that created a job or ended its last attempt. A message
    expires after RESEND_SECONDS. After that, this task sends the message again.
    """
    with session_scope(PlatformScope()) as session:
        due = service.claim_due(session, resend_after=timedelta(seconds=RESEND_SECONDS), most=runner.MAX_RUNNING)
    for job in due:
        kind = job.kind if job.kind in JOB_HANDLERS else _UNKNOWN_KIND
        current_app.tasks[kind].apply_async((str(job.id),), retries=job.failures, expires=RESEND_SECONDS)


def _define_task(kind: str, handler: JobHandler) -> None:
    @shared_task(name=kind, base=JobTask, bind=True, handler=handler)
    def run(task: JobTask, job_id: str) -> None:
        unseal = Sealer(MasterKeyFile(load_settings().master_key_file)).open
        with limit_waiting(LONG_STATEMENT_SECONDS):
            task.run_row(UUID(job_id), unseal=unseal, app_engine=_app_engine())


def _reject_kind(run: JobRun) -> None:
    """Handle a job whose kind this version does not know. The job is retried, because a newer worker may return."""
    raise LookupError(f"{run} has an unknown kind")


for _kind, _handler in {**JOB_HANDLERS, _UNKNOWN_KIND: MultiTransactionHandler(_reject_kind)}.items():
    _define_task(_kind, _handler)


@cache
def _app_engine() -> Engine:
    """Database engine of this process, created after the fork."""
    return lower_connection_priority(
        make_engine(load_settings().database_url, pool_size=2, application_name="admit-jobs")
    )
