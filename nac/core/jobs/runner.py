"""Execution of background jobs.

A worker leases a job for the time LEASE, and renews the lease while the job runs. If the worker fails, another worker
continues the job after the lease expires. The first worker can then no longer commit.

Workers lease jobs as database role admit_worker, and run them as admit_app with the permissions of the user who started
the job. No committed step runs twice: a job with one transaction records its end in this transaction, and a job with
several transactions records its progress in each transaction.
"""

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import ColumnElement, Engine, and_, func, update
from sqlalchemy.orm import Session

from nac.core.access.grants import Owner
from nac.core.audit import service as audit
from nac.core.audit.service import RequestOrigin
from nac.core.jobs import service
from nac.kit.clock import utc_now
from nac.kit.db import MspScope, PlatformScope, Scope, TenantScope, session_scope
from nac.kit.errors import AdmitError, Overtaken, Unavailable, describe_problem
from nac.kit.sealing import Unseal
from nac.models import Job

_log = logging.getLogger(__name__)
LEASE = timedelta(minutes=2)
# Maximum concurrent jobs of all workers. The other worker processes remain free for scheduled work.
MAX_RUNNING = 2
# Maximum number of leases of a job that expired without progress. At this number, the job fails, because it probably
# crashes its worker.
MAX_LAPSES = 4
_PROGRESS_SECONDS = 1.0
_PROGRESS_ROWS = 1_000
_NEVER_ENDS_PROBLEM = {
    "code": "job-never-ends",
    "title": "The job does not finish.",
    "detail": f"The worker stopped {MAX_LAPSES} times without progress of the job.",
    "remedy": "Send less data in one request, or check the worker's log and memory. Then retry the job.",
}
# `code` must equal the code of internal errors in api.errors.
_INTERNAL_PROBLEM = {
    "code": "internal-error",
    "title": "Internal error.",
    "detail": "The error is in the worker's log.",
}


class _JobTakenOver(Exception):
    """Another worker has leased the job."""


class JobCancelled(Exception):
    """A user cancelled the job. `JobRun.report` and the transactions of the job raise this error."""


@dataclass(frozen=True, slots=True)
class JobContinuation:
    """Result of a handler that has not finished the job yet.

    The worker continues the job after the delay `after`, and after other jobs that already wait.
    """

    after: timedelta = timedelta()


@dataclass(slots=True)
class JobRun:
    """Input and progress of a running job, for its handler."""

    job: Job
    unseal: Unseal = field(repr=False)
    engine: Engine
    input: Mapping[str, Any] = field(default_factory=dict, repr=False)
    # Whether the whole job is one transaction, which rolls back if the job does not finish.
    is_whole: bool = False
    _reported_at: float = 0.0
    _reported_done: int = 0
    id: UUID = field(init=False)
    owner: Owner = field(init=False)
    actor: str = field(init=False)
    # Number of times that a worker has leased the job.
    takes: int = field(init=False)
    # Last progress that `save_place` stored.
    place: Mapping[str, Any] = field(init=False)

    def __post_init__(self) -> None:
        job = self.job
        self.id, self.owner, self.actor = job.id, Owner(job.msp_id, job.tenant_id), job.requested_by
        self.takes, self.place = job.takes, job.place

    @property
    def scope(self) -> Scope:
        if self.owner.tenant_id is not None:
            return TenantScope(self.owner.tenant_id)
        return PlatformScope() if self.owner.msp_id is None else MspScope(self.owner.msp_id)

    @contextmanager
    def transaction(self) -> Iterator[Session]:
        """Open a transaction in the owner's database scope. Commits at exit, unless the job was cancelled or leased by
        another worker."""
        with self.open_session() as session:
            yield session
            session.flush()
            self.hold(session)

    def report(self, done: int, total: int | None = None) -> None:
        """Report the number of finished rows in a separate transaction, so that clients see it immediately.

        You can call this function often: it writes only once a second and every thousand rows.
        """
        now = time.monotonic()
        if now - self._reported_at < _PROGRESS_SECONDS and done < self._reported_done + _PROGRESS_ROWS:
            return
        self._reported_at, self._reported_done = now, done
        with session_scope(self.scope, engine=self.engine) as session:
            self.hold(session, done=done, **({} if total is None else {"total": total}))

    def save_place(self, session: Session, place: Mapping[str, Any]) -> None:
        """Store the progress in the current transaction. A retry continues from this progress."""
        self.hold(session, place=dict(place), lapses=0)
        self.place = place

    @contextmanager
    def open_session(self, scope: Scope | None = None, *, is_snapshot: bool = False) -> Iterator[Session]:
        """Open a transaction in `scope`, or in the database scope of the job's owner (tenant, MSP or platform).

        Audit entries get the IP address and the id of the request that started the job.
        """
        with session_scope(scope or self.scope, engine=self.engine, is_snapshot=is_snapshot) as session:
            if self.job.request_id is not None:
                audit.set_origin(session, RequestOrigin(self.job.address, self.job.request_id))
            yield session

    def hold(self, session: Session, **values: object) -> None:
        """Renew the lease, and store `values` in columns of the job. Raises JobCancelled or _JobTakenOver."""
        renewed = update(Job).where(self._is_mine()).values(due_at=utc_now() + LEASE, **values)
        cancelled = session.scalar(renewed.returning(Job.is_cancelled))
        if cancelled is None:
            raise _JobTakenOver
        if cancelled:
            raise JobCancelled

    def end(self, session: Session, **values: object) -> None:
        if session.scalar(update(Job).where(self._is_mine()).values(**values).returning(Job.id)) is None:
            raise _JobTakenOver

    def _is_mine(self) -> ColumnElement[bool]:
        return and_(Job.id == self.id, Job.state == "running", Job.takes == self.takes)

    def __str__(self) -> str:
        return f"job {self.id} ({self.job.kind})"


@dataclass(frozen=True, slots=True)
class SingleTransactionHandler:
    """Handler that runs in one transaction, which also records the end of the job. `run` returns the job's result."""

    run: Callable[[Session, JobRun], Mapping[str, Any] | None]


@dataclass(frozen=True, slots=True)
class MultiTransactionHandler:
    """Handler that opens several transactions (`JobRun.transaction`) and stores the job's progress in each
    transaction."""

    run: Callable[[JobRun], Mapping[str, Any] | JobContinuation | None]


JobHandler = SingleTransactionHandler | MultiTransactionHandler


def take_job(job_id: UUID, *, unseal: Unseal, app_engine: Engine, engine: Engine | None = None) -> JobRun | None:
    """Lease a queued job. Returns None if the job must not run now.

    `engine` connects as database role admit_worker, `app_engine` as admit_app.
    """
    with session_scope(PlatformScope(), engine=engine) as session:
        job = service.take(session, job_id, lease=LEASE, most=MAX_RUNNING)
    return None if job is None else JobRun(job, unseal, app_engine)


def execute_job(run: JobRun, handler: JobHandler) -> None:
    """Run the job and record its end. If the worker can retry the job after an error (such as Unavailable), raises this
    error instead."""
    try:
        _execute(run, handler)
    except _JobTakenOver:
        _log.info("%s was taken over by another worker", run)
    except JobCancelled:
        _finish(run, state="cancelled")
    except (Overtaken, Unavailable):
        raise
    except AdmitError as exc:
        if exc.status >= 500:
            raise
        _finish(run, state="failed", problem=describe_problem(exc))


def postpone_job(run: JobRun, exc: Exception, *, after: timedelta) -> None:
    """Queue the job again after the error `exc`. Clients see the error in the job's field `problem`.

    Attempts during an outage of a service do not count as failures.
    """
    failures = run.job.failures + (not isinstance(exc, Unavailable))
    values = {"due_at": utc_now() + after, "failures": failures, "problem": _describe(exc)}
    _finish(run, state="queued", ended_at=None, **values)


def fail_job(run: JobRun, exc: Exception) -> None:
    _finish(run, state="failed", problem=_describe(exc))


def _describe(exc: Exception) -> dict[str, Any]:
    return describe_problem(exc) if isinstance(exc, AdmitError) else _INTERNAL_PROBLEM


def _execute(run: JobRun, handler: JobHandler) -> None:
    # Set `is_whole` first, because `_finish` uses it.
    run.is_whole = isinstance(handler, SingleTransactionHandler)
    job = run.job
    if job.is_cancelled:
        raise JobCancelled
    if job.lapses >= MAX_LAPSES:
        _log.error("%s lost its worker %d times without progress", run, job.lapses)
        _finish(run, state="failed", problem=_NEVER_ENDS_PROBLEM)
        return
    run.input = service.open_input(job, run.unseal)
    if isinstance(handler, SingleTransactionHandler):
        if job.done:
            # Clear the progress that the previous worker reported: its transaction was rolled back.
            with run.open_session() as session:
                run.hold(session, done=0)
        with run.open_session() as session:
            result = handler.run(session, run)
            session.flush()
            run.hold(session)
            # Set `done` to `total`, because a short job may have reported no progress.
            run.end(session, done=func.greatest(Job.done, Job.total), **_done_values(result))
        return
    answer = handler.run(run)
    if isinstance(answer, JobContinuation):
        _finish(run, state="queued", due_at=utc_now() + answer.after, failures=0, lapses=0, ended_at=None)
    else:
        _finish(run, **_done_values(answer))


def _done_values(result: Mapping[str, Any] | None) -> dict[str, Any]:
    return {
        "state": "done",
        "result": dict(result or {}),
        "ended_at": utc_now(),
        "input_sealed": None,
        "problem": None,
    }


def _finish(run: JobRun, *, state: str, **values: object) -> None:
    values = {"state": state, "ended_at": utc_now(), **values}
    if state == "cancelled":
        values["input_sealed"] = None
    if run.is_whole:
        values["done"] = 0
    try:
        with session_scope(run.scope, engine=run.engine) as session:
            run.end(session, **values)
    except _JobTakenOver:
        _log.info("%s was taken over by another worker", run)
