"""Doing what was asked for: each job is somebody's for LEASE, and goes on elsewhere if he dies.

Taken as admit_worker, done as admit_app: it is what its asker could have done himself, were it shorter.

Nothing is done twice: a job of one transaction says that it is done in that transaction, one of several says in each
where it is, and who was taken over cannot commit any more.
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

from nac.accounts.owners import Owner
from nac.audit import service as audit
from nac.audit.service import Origin
from nac.clock import utc_now
from nac.db import MspScope, PlatformScope, Scope, TenantScope, session_scope
from nac.errors import AdmitError, Overtaken, Unavailable, problem_of
from nac.jobs import repository, service
from nac.models import Job
from nac.sealing import Unseal

_log = logging.getLogger(__name__)
LEASE = timedelta(minutes=2)
# At a time, of all workers: the rest of the worker's processes are for what is due by the clock.
MAX_RUNNING = 2
# So often it may be taken from who had it, without having gone on meanwhile: it may be what kills its worker.
MAX_LAPSES = 4
_PROGRESS_SECONDS = 1.0
_PROGRESS_ROWS = 1_000
_RETRY_AFTER = (timedelta(seconds=5), timedelta(seconds=30), timedelta(minutes=5))
# The edge's own word for it (api.errors).
_NEVER_ENDS_PROBLEM = {
    "code": "job-never-ends",
    "title": "The job does not come to an end.",
    "detail": f"It was begun {MAX_LAPSES} times, and each time whoever did it was gone before it went on.",
    "remedy": "Give less at once, or have the worker's log and memory looked at, and try it again.",
}
_INTERNAL_PROBLEM = {
    "code": "internal-error",
    "title": "Something went wrong.",
    "detail": "The error is in the worker's log.",
}


class _JobTakenOver(Exception):
    """The job is somebody else's by now."""


class JobCancelled(Exception):
    """Somebody wants the job to end; raised by `tell` and by transactions."""


@dataclass(frozen=True, slots=True)
class JobContinuation:
    """Of a job of several transactions: not done yet, others have their turn before it goes on."""

    after: timedelta = timedelta()


@dataclass(slots=True)
class JobRun:
    """What a handler is given."""

    id: UUID
    owner: Owner
    actor: str
    input: Mapping[str, Any] = field(repr=False)
    # Where the job is: what `note_place` wrote last.
    place: Mapping[str, Any]
    unseal: Unseal = field(repr=False)
    _takes: int
    _origin: Origin | None
    engine: Engine
    # Of one transaction: what it has not come to an end with is undone.
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
        """In the owner's scope; commits at exit, unless the job was cancelled or taken over."""
        with self.open_session() as session:
            yield session
            session.flush()
            self.hold(session)

    def tell(self, done: int, total: int | None = None) -> None:
        """How far it is: shown at once, whatever transaction is open. To be called often; writes once a second, and
        for each thousand."""
        if time.monotonic() - self._told < _PROGRESS_SECONDS and done < self._reported_done + _PROGRESS_ROWS:
            return
        self._told, self._reported_done = time.monotonic(), done
        with session_scope(self.scope, engine=self.engine) as session:
            self.hold(session, done=done, **({} if total is None else {"total": total}))

    def save_place(self, session: Session, place: Mapping[str, Any]) -> None:
        """In one of its transactions: who goes on begins here."""
        self.hold(session, place=dict(place), lapses=0)
        self.place = place

    @property
    def takes(self) -> int:
        """Another for whoever goes on with the job elsewhere."""
        return self._takes

    @contextmanager
    def open_session(self, scope: Scope | None = None, *, is_snapshot: bool = False) -> Iterator[Session]:
        """In the owner's scope unless another is given; audit entries tell who asked, from where."""
        with session_scope(scope or self.scope, engine=self.engine, is_snapshot=is_snapshot) as session:
            if self._origin is not None:
                audit.note_origin(session, self._origin)
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
    """All or nothing: what it does, and that it is done. Returns the result, JSON without secrets."""

    run: Callable[[Session, JobRun], Mapping[str, Any] | None]


@dataclass(frozen=True, slots=True)
class MultiTransactionHandler:
    """Opens them itself (`Work.transaction`), and notes in each where it is. Returns the result, or GoOn."""

    run: Callable[[JobRun], Mapping[str, Any] | JobContinuation | None]


JobHandler = SingleTransactionHandler | MultiTransactionHandler


def run_next(
    handlers: Mapping[str, JobHandler], *, unseal: Unseal, app_engine: Engine, engine: Engine | None = None
) -> bool:
    """Do the job whose turn it is; whether there was one. `engine` is of admit_worker."""
    with session_scope(PlatformScope(), engine=engine) as session:
        taken = repository.take_due(session, lease=LEASE, most=MAX_RUNNING)
    if taken is None:
        return False
    with session_scope(PlatformScope(), engine=engine) as session:
        job = repository.get(session, taken.owner, taken.id)
    if job is None:
        return True
    origin = Origin(job.address, job.request_id) if job.request_id is not None else None
    work = JobRun(job.id, taken.owner, job.asked_by, {}, job.place, unseal, job.takes, origin, app_engine)
    try:
        _run(handlers, work, job)
    except _JobTakenOver:
        _log.info("job %s (%s) is no longer to be done here", job.id, job.kind)
    except JobCancelled:
        _finish(work, state="cancelled")
    except Overtaken as exc:
        _postpone(work, job, exc)
    except Unavailable as exc:
        _log.warning("job %s (%s): %s", job.id, job.kind, exc)
        _postpone(work, job, exc)
    except AdmitError as exc:
        if exc.status >= 500:
            _log.exception("job %s (%s) fails", job.id, job.kind)
            _postpone(work, job, exc)
        else:
            _finish(work, state="failed", problem=problem_of(exc))
    except Exception:  # house-rule: whatever is wrong with this one, the others have their turns
        _log.exception("job %s (%s) fails", job.id, job.kind)
        _postpone(work, job, None)
    return True


def _run(handlers: Mapping[str, JobHandler], work: JobRun, job: Job) -> None:
    # Before anything ends it: whoever had it may have told of what was undone with him.
    work.is_whole = isinstance(handlers.get(job.kind), SingleTransactionHandler)
    if job.is_cancelled:
        raise JobCancelled
    if job.lapses >= MAX_LAPSES:
        _log.error("job %s (%s) was begun %d times, and nobody came back", job.id, job.kind, job.lapses)
        _finish(work, state="failed", problem=_NEVER_ENDS_PROBLEM)
        return
    work.input = service.open_input(job, work.unseal)
    handler = handlers[job.kind]
    if isinstance(handler, SingleTransactionHandler):
        if job.done:
            # Of who was taken over in the middle of it.
            with work.open_session() as session:
                work.hold(session, done=0)
        with work.open_session() as session:
            result = handler.run(session, work)
            session.flush()
            work.hold(session)
            # All of it: what goes on within says how far it is only where that takes long.
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
        _log.info("job %s is no longer to be done here", work.id)


def _postpone(work: JobRun, job: Job, exc: AdmitError | None) -> None:
    """Tried again a few times, then it has failed; what does not answer is no fault of the job's and is waited for."""
    problem = _INTERNAL_PROBLEM if exc is None else problem_of(exc)
    tried = job.failures
    if tried >= len(_RETRY_AFTER) and not isinstance(exc, Unavailable):
        _finish(work, state="failed", problem=problem)
        return
    after = _RETRY_AFTER[min(tried, len(_RETRY_AFTER) - 1)]
    _finish(work, state="queued", due_at=utc_now() + after, failures=tried + 1, problem=problem, ended_at=None)
