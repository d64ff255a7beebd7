"""Due jobs, run in this process as a Celery worker runs them."""

from collections.abc import Mapping
from datetime import timedelta
from uuid import UUID, uuid4

from celery import Celery
from celery.app.trace import build_tracer
from sqlalchemy import Engine

from nac.core.jobs import runner, service
from nac.core.jobs.runner import JobHandler, JobRun, MultiTransactionHandler
from nac.kit.db import PlatformScope, session_scope
from nac.kit.sealing import Unseal
from worker.task_classes import JobTask

_APP = Celery("test", set_as_current=False)


@_APP.task(name="test.run", base=JobTask, bind=True, shared=False, lazy=False)
def _run(task: JobTask, job_id: UUID, **worker: object) -> None:
    task.run_row(job_id, **worker)


def run_next(
    handlers: Mapping[str, JobHandler], *, unseal: Unseal, app_engine: Engine, engine: Engine | None = None
) -> bool:
    """Run the next job of each owner. Returns whether there was a job. `engine` is for the role admit_worker."""
    with session_scope(PlatformScope(), engine=engine) as session:
        due = service.claim_due(session, resend_after=timedelta(minutes=1), most=runner.MAX_RUNNING)
    worker = {"unseal": unseal, "app_engine": app_engine, "engine": engine}
    for job in due:
        _run.handler = handlers.get(job.kind) or MultiTransactionHandler(_reject_kind)
        request = {"id": str(uuid4()), "retries": job.failures, "is_eager": True}
        build_tracer(_run.name, _run, eager=True, app=_APP)(request["id"], (job.id,), worker, request)
    return bool(due)


def _reject_kind(run: JobRun) -> None:
    raise LookupError(f"{run} has an unknown kind")
