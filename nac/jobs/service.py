"""What somebody has asked for and that is too long for an answer: asking, looking, ending.

The row is written in the transaction of the request and says all there is to do (an outbox); the worker takes it within
a second (`nac.jobs.runner`).
"""

import json
import zlib
from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

from sqlalchemy.orm import Session

from nac.accounts.grants import require as require_permission
from nac.accounts.owners import Owner
from nac.accounts.permissions import Permission
from nac.audit import service as audit
from nac.clock import utc_now
from nac.db.orders import Span
from nac.db.quotas import count_alone
from nac.db.seeking import Sought
from nac.errors import Conflict, InvalidInput, NotFound
from nac.jobs import repository
from nac.jobs.repository import ORDERS as ORDERS
from nac.models import Job
from nac.sealing import Seal, Unseal

STATES = ("queued", "running", "done", "failed", "cancelled")
_OPEN = ("queued", "running")
# Of one owner, waiting and running.
MAX_WAITING = 20
MAX_INPUT_BYTES = 32 * 1024 * 1024
RETENTION = timedelta(days=30)


class JobNotFound(NotFound):
    """There is no such job."""


def start_job(
    session: Session,
    *,
    actor: str,
    owner: Owner,
    kind: str,
    title: str,
    input: Mapping[str, Any],  # noqa: A002 -- what it is
    needs: Collection[Permission],
    seal: Seal,
    total: int = 0,
) -> Job:
    """A job that begins after the commit. In the scope of the owner; whether the actor may is asked of him now, and of
    whoever tries it again: that takes all that it `needs`.

    `kind` is one of the worker's handlers, `input` JSON that it is given; it may hold secrets. `title` is for people.
    Raises Conflict where too many wait, and InvalidInput where the input is too large.
    """
    _require_room(session, owner)
    plain = json.dumps(input, separators=(",", ":")).encode()
    if len(plain) > MAX_INPUT_BYTES:
        raise InvalidInput(f"That is more than {MAX_INPUT_BYTES} bytes.", remedy="Give it in several parts.")
    job_id = uuid4()
    origin = audit.origin_of(session)
    job = Job(
        id=job_id,
        kind=kind,
        title=title,
        total=total,
        input_sealed=seal(zlib.compress(plain, 1), _context(job_id)),
        asked_by=actor,
        needs=sorted(needs),
        address=origin.address if origin else None,
        request_id=origin.request_id if origin else None,
        **owner.columns(),
    )
    session.add(job)
    session.flush()
    session.refresh(job)
    _audit(session, actor, job, "start", {"kind": kind, "title": title})
    return job


def _require_room(session: Session, owner: Owner) -> None:
    count_alone(session, "jobs", owner)
    if repository.count_waiting(session, owner) >= MAX_WAITING:
        raise Conflict(f"{MAX_WAITING} jobs wait already.", remedy="Wait for them, or cancel one.")


def open_input(job: Job, unseal: Unseal) -> dict[str, Any]:
    if job.input_sealed is None:
        return {}
    given: dict[str, Any] = json.loads(zlib.decompress(unseal(job.input_sealed, _context(job.id))))
    return given


def _context(job_id: UUID) -> str:
    return f"job:{job_id}"


def list_jobs(
    session: Session,
    *,
    owner: Owner,
    states: Sequence[str] = (),
    kind: str = "",
    span: Span | None = None,
) -> Sequence[Job]:
    """The newest first, unless `span` says otherwise. `states` leaves out the others."""
    return repository.search(session, owner, states=states, kind=kind, span=span or ORDERS.first(), in_full=True).rows


def search_jobs(session: Session, *, owner: Owner, states: Sequence[str], kind: str, span: Span) -> Sought[Job]:
    """As `list_jobs`, for as long as one answer may take (nac.db.seeking)."""
    return repository.search(session, owner, states=states, kind=kind, span=span)


def require_job(session: Session, *, owner: Owner, job_id: UUID, lock: bool = False) -> Job:
    job = repository.get(session, owner, job_id, lock=lock)
    if job is None:
        raise JobNotFound("There is no such job.", place="job")
    return job


def cancel_job(session: Session, *, actor: str, owner: Owner, job_id: UUID) -> Job:
    """One that runs ends at its next step; what it did in transactions of its own before stays done.

    Raises JobNotFound, and Conflict where it is over.
    """
    job = require_job(session, owner=owner, job_id=job_id, lock=True)
    if job.state not in _OPEN:
        raise Conflict(f"The job is {job.state} already.", place="job")
    if not job.is_cancelled:
        job.is_cancelled = True
        if job.state == "queued":
            job.state, job.ended_at, job.input_sealed = "cancelled", utc_now(), None
        session.flush()
        _audit(session, actor, job, "cancel", {"state": job.state})
    return job


def retry_job(
    session: Session, *, actor: str, owner: Owner, job_id: UUID, held: Collection[Permission] | None = None
) -> Job:
    """Begin one again that failed, from where it was. `held` is what the actor may there, None for all.

    Raises JobNotFound and Conflict, and PermissionMissing where the actor could not have begun it.
    """
    job = require_job(session, owner=owner, job_id=job_id, lock=True)
    if held is not None:
        _require_may_start(job, held)
    if job.state != "failed":
        raise Conflict(f"The job is {job.state}: there is nothing to try again.", place="job")
    _require_room(session, owner)
    job.state, job.ended_at, job.due_at = "queued", None, utc_now()
    job.failures, job.lapses, job.is_cancelled, job.problem = 0, 0, False, None
    session.flush()
    _audit(session, actor, job, "retry", {"state": job.state})
    return job


def _require_may_start(job: Job, held: Collection[Permission]) -> None:
    if job.needs is None:
        raise Conflict("An earlier version began it, and did not note what that takes.", remedy="Begin it anew.")
    if not set(job.needs) <= set(Permission):
        raise Conflict("An earlier version began it, by a permission that is none any more.", remedy="Begin it anew.")
    for needed in job.needs:
        require_permission(held, Permission(needed))


def prune(session: Session) -> None:
    """Forget those that ended long ago. As admit_worker, in PlatformScope."""
    repository.delete_ended(session, before=utc_now() - RETENTION)


def _audit(session: Session, actor: str, job: Job, verb: str, after: Mapping[str, str]) -> None:
    audit.append(
        session,
        actor=actor,
        action=f"job.{verb}",
        target=str(job.id),
        after=after,
        msp_id=job.msp_id,
        tenant_id=job.tenant_id,
    )
