"""Runs jobs. A worker leases a job for LEASE; if the worker dies, another one continues the job.

Workers take jobs as admit_worker and run them as admit_app, with the caller's rights.

No step runs twice. A job of one transaction records its end in that transaction. A job of several records its progress
in each. A worker that lost its lease cannot commit.
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

from nac.core.access.owners import Owner
from nac.core.audit import service as audit
from nac.core.audit.service import RequestOrigin
from nac.core.jobs import repository, service
from nac.kit.clock import utc_now
from nac.kit.db import MspScope, PlatformScope, Scope, TenantScope, session_scope
from nac.kit.errors import AdmitError, Overtaken, Unavailable, describe_problem
from nac.kit.sealing import Unseal
from nac.models import Job

_log = logging.getLogger(__name__)
LEASE = timedelta(minutes=2)
# Concurrent jobs of all workers. The remaining processes are for scheduled work.
MAX_RUNNING = 2
# Maximum lost leases without progress: such a job may crash its worker.
MAX_LAPSES = 4
_PROGRESS_SECONDS = 1.0
_PROGRESS_ROWS = 1_000
_RETRY_AFTER = (timedelta(seconds=5), timedelta(seconds=30), timedelta(minutes=5))
# The same code as in the API (api.errors).
_NEVER_ENDS_PROBLEM = {
    "code": "job-never-ends",
    "title": "The job does not finish.",
    "detail": f"The worker stopped {MAX_LAPSES} times without progress of the job.",
    "remedy": "Send less at once, or check the worker's log and memory. Then retry the job.",
}
_INTERNAL_PROBLEM = {
    "code": "internal-error",
    "title": "Internal error.",
    "detail": "The error is in the worker's log.",
}


class _JobTakenOver(Exception):
    """Another worker has the job."""


class JobCancelled(Exception):
    """The job was cancelled; raised by `tell` and by transactions."""


@dataclass(frozen=True, slots=True)
class JobContinuation:
    """Result of an unfinished job: it continues after other jobs and the delay."""

    after: timedelta = timedelta()


@dataclass(slots=True)
class JobRun:
    """Input and state of a job, for its handler."""

    id: UUID
    owner: Owner
    actor: str
    input: Mapping[str, Any] = field(repr=False)
    # Progress: the last value of `note_place`.
    place: Mapping[str, Any]
    unseal: Unseal = field(repr=False)
    _takes: int
    _origin: RequestOrigin | None
    engine: Engine
    # Whether the job is one transaction, which rolls back if it does not finish.
    is_whole: bool = False
    _told: float = 0.0
    _reported_done: int = 0

    @property
    def scope(self) -> Scope:
        if self.owner.tenant_id is not None:
            return TenantScope(self.owner.tenant_id)
        return PlatformScope() if self.owner.msp_id is None else MspScope(self.owner.msp_id)

    @contextmanager
    def transaction(self) -> Iterator[Session]:
        """Transaction in the owner's scope. Commits at exit, unless the job was cancelled or taken over."""
        with self.open_session() as session:
            yield session
            session.flush()
            self.hold(session)

    def tell(self, done: int, total: int | None = None) -> None:
        """Report the progress, visible at once. Call it often: it writes once a second and every thousand rows."""
        if time.monotonic() - self._told < _PROGRESS_SECONDS and done < self._reported_done + _PROGRESS_ROWS:
            return
        self._told, self._reported_done = time.monotonic(), done
        with session_scope(self.scope, engine=self.engine) as session:
            self.hold(session, done=done, **({} if total is None else {"total": total}))

    def save_place(self, session: Session, place: Mapping[str, Any]) -> None:
        """Store the progress in the current transaction. A retry continues from here."""
        self.hold(session, place=dict(place), lapses=0)
        self.place = place

    @property
    def takes(self) -> int:
        """Number of leases; a new one for each worker that continues the job."""
        return self._takes

    @contextmanager
    def open_session(self, scope: Scope | None = None, *, is_snapshot: bool = False) -> Iterator[Session]:
        """Transaction in the owner's or another scope. Audit entries have the origin of the job's request."""
        with session_scope(scope or self.scope, engine=self.engine, is_snapshot=is_snapshot) as session:
            if self._origin is not None:
                audit.set_origin(session, self._origin)
            yield session

    def hold(self, session: Session, **values: object) -> None:
        wanted = update(Job).where(self._is_mine()).values(due_at=utc_now() + LEASE, **values)
        cancelled = session.scalar(wanted.returning(Job.is_cancelled))
        if cancelled is None:
            raise _JobTakenOver
        if cancelled:
            raise JobCancelled

    def end(self, session: Session, **values: object) -> None:
        if session.scalar(update(Job).where(self._is_mine()).values(**values).returning(Job.id)) is None:
            raise _JobTakenOver

    def _is_mine(self) -> ColumnElement[bool]:
        return and_(Job.id == self.id, Job.state == "running", Job.takes == self._takes)


@dataclass(frozen=True, slots=True)
class SingleTransactionHandler:
    """Handler in one transaction, which also records its end. Returns the result: JSON without secrets."""

    run: Callable[[Session, JobRun], Mapping[str, Any] | None]


@dataclass(frozen=True, slots=True)
class MultiTransactionHandler:
    """Handler that opens transactions (`Work.transaction`) and stores its progress in each. Returns result or GoOn."""

    run: Callable[[JobRun], Mapping[str, Any] | JobContinuation | None]


JobHandler = SingleTransactionHandler | MultiTransactionHandler


def run_next(
    handlers: Mapping[str, JobHandler], *, unseal: Unseal, app_engine: Engine, engine: Engine | None = None
) -> bool:
    """Run the next job. Returns whether there was one. `engine` is that of admit_worker."""
    with session_scope(PlatformScope(), engine=engine) as session:
        taken = repository.take_due(session, lease=LEASE, most=MAX_RUNNING)
    if taken is None:
        return False
    with session_scope(PlatformScope(), engine=engine) as session:
        job = repository.get(session, taken.owner, taken.id)
    if job is None:
        return True
    origin = RequestOrigin(job.address, job.request_id) if job.request_id is not None else None
    work = JobRun(job.id, taken.owner, job.asked_by, {}, job.place, unseal, job.takes, origin, app_engine)
    try:
        _run(handlers, work, job)
    except _JobTakenOver:
        _log.info("job %s (%s) was taken over by another worker", job.id, job.kind)
    except JobCancelled:
        _finish(work, state="cancelled")
    except Overtaken as exc:
        _postpone(work, job, exc)
    except Unavailable as exc:
        _log.warning("job %s (%s): %s", job.id, job.kind, exc)
        _postpone(work, job, exc)
    except AdmitError as exc:
        if exc.status >= 500:
            _log.exception("job %s (%s) failed", job.id, job.kind)
            _postpone(work, job, exc)
        else:
            _finish(work, state="failed", problem=describe_problem(exc))
    except Exception:  # house-rule: an error in one job does not stop the others
        _log.exception("job %s (%s) failed", job.id, job.kind)
        _postpone(work, job, None)
    return True


def _run(handlers: Mapping[str, JobHandler], work: JobRun, job: Job) -> None:
    # First: the previous worker may have reported progress that was rolled back.
    work.is_whole = isinstance(handlers.get(job.kind), SingleTransactionHandler)
    if job.is_cancelled:
        raise JobCancelled
    if job.lapses >= MAX_LAPSES:
        _log.error("job %s (%s) lost its worker %d times without progress", job.id, job.kind, job.lapses)
        _finish(work, state="failed", problem=_NEVER_ENDS_PROBLEM)
        return
    work.input = service.open_input(job, work.unseal)
    handler = handlers[job.kind]
    if isinstance(handler, SingleTransactionHandler):
        if job.done:
            # Progress of the previous worker, which was rolled back.
            with work.open_session() as session:
                work.hold(session, done=0)
        with work.open_session() as session:
            result = handler.run(session, work)
            session.flush()
            work.hold(session)
            # Complete: short jobs report no progress.
            work.end(session, done=func.greatest(Job.done, Job.total), **_done_values(result))
        return
    answer = handler.run(work)
    if isinstance(answer, JobContinuation):
        _finish(work, state="queued", due_at=utc_now() + answer.after, failures=0, lapses=0, ended_at=None)
    else:
        _finish(work, **_done_values(answer))


def _done_values(result: Mapping[str, Any] | None) -> dict[str, Any]:
    return {
        "state": "done",
        "result": dict(result or {}),
        "ended_at": utc_now(),
        "input_sealed": None,
        "problem": None,
    }


def _finish(work: JobRun, *, state: str, **values: object) -> None:
    values = {"state": state, "ended_at": utc_now(), **values}
    if state == "cancelled":
        values["input_sealed"] = None
    if work.is_whole:
        values["done"] = 0
    try:
        with session_scope(work.scope, engine=work.engine) as session:
            work.end(session, **values)
    except _JobTakenOver:
        _log.info("job %s was taken over by another worker", work.id)


def _postpone(work: JobRun, job: Job, exc: AdmitError | None) -> None:
    """Retry a few times, then fail. Unavailable services do not count: the job waits for them."""
    problem = _INTERNAL_PROBLEM if exc is None else describe_problem(exc)
    tried = job.failures
    if tried >= len(_RETRY_AFTER) and not isinstance(exc, Unavailable):
        _finish(work, state="failed", problem=problem)
        return
    after = _RETRY_AFTER[min(tried, len(_RETRY_AFTER) - 1)]
    _finish(work, state="queued", due_at=utc_now() + after, failures=tried + 1, problem=problem, ended_at=None)
