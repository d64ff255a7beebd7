"""Background jobs: start, list, cancel and retry.

The transaction of the request stores the job and its input. Within a second the worker sends a Celery message for the
job (`worker.jobs.client_jobs`) and runs the job (`nac.core.jobs.runner`).
"""

import json
import zlib
from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta
from typing import Any, Literal
from uuid import UUID, uuid4

from sqlalchemy.orm import Session

from nac.core.access.grants import require_permissions as require_permission
from nac.core.access.owners import Owner
from nac.core.audit import service as audit
from nac.core.jobs import repository
from nac.core.jobs.repository import ORDERS as ORDERS
from nac.kit.clock import utc_now
from nac.kit.db import lock_quota
from nac.kit.db.queries import BoundedPage
from nac.kit.db.sort_orders import PageSpan
from nac.kit.errors import Conflict, InvalidInput, NotFound
from nac.kit.permissions import Permission
from nac.kit.sealing import Seal, Unseal
from nac.models import Job

STATES = ("queued", "running", "done", "failed", "cancelled")
_OPEN = ("queued", "running")
# Maximum queued and running jobs of one owner.
MAX_WAITING = 20
MAX_INPUT_BYTES = 32 * 1024 * 1024
RETENTION = timedelta(days=30)
# The worker selects the handler of a job by this name.
JobKind = Literal[
    "bulk.run",
    "import.run",
    "policies.publish",
    "policies.replay",
    "templates.roll-out",
    "tenants.export",
    "tenants.import",
]


class JobNotFound(NotFound):
    """The job does not exist."""


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
    """Create a job, which starts after the commit. Use in the database scope of the owner.

    Check permissions before the call. A retry checks all permissions in `needs`. `kind` selects the worker's handler.
    `input` is the JSON input of the handler and may contain secrets. `title` is text for users.
    Raises Conflict if too many jobs wait. Raises InvalidInput if the input is too large.
    """
    _require_room(session, owner)
    plain = json.dumps(input, separators=(",", ":")).encode()
    if len(plain) > MAX_INPUT_BYTES:
        raise InvalidInput(
            f"The input has more than {MAX_INPUT_BYTES} bytes.", remedy="Send the input in several parts."
        )
    job_id = uuid4()
    origin = audit.get_origin(session)
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
    lock_quota(session, "jobs", owner)
    if repository.count_waiting(session, owner) >= MAX_WAITING:
        raise Conflict(
            f"The limit of {MAX_WAITING} queued and running jobs is reached.",
            remedy="Wait until a job ends, or cancel a job.",
        )


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
    span: PageSpan | None = None,
) -> Sequence[Job]:
    """List jobs, by default newest first. `states` selects jobs in these states; an empty `states` selects all
    jobs."""
    return repository.search(session, owner, states=states, kind=kind, span=span or ORDERS.first(), in_full=True).rows


def search_jobs(
    session: Session, *, owner: Owner, states: Sequence[str], kind: str, span: PageSpan
) -> BoundedPage[Job]:
    """Search jobs like `list_jobs`. The search stops at the time limit of one response, so the result can be
    incomplete."""
    return repository.search(session, owner, states=states, kind=kind, span=span)


def require_job(session: Session, *, owner: Owner, job_id: UUID, lock: bool = False) -> Job:
    job = repository.get(session, owner, job_id, lock=lock)
    if job is None:
        raise JobNotFound("This job does not exist.", place="job")
    return job


def cancel_job(session: Session, *, actor: str, owner: Owner, job_id: UUID) -> Job:
    """Cancel a job. A running job stops at its next step. Changes that the job has already committed stay.

    Raises JobNotFound, and Conflict if the job has ended.
    """
    job = require_job(session, owner=owner, job_id=job_id, lock=True)
    if job.state not in _OPEN:
        raise Conflict(f"The job is already {job.state}.", place="job")
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
    """Retry a failed job from its last progress. `held` are the caller's permissions; None means all permissions.

    Raises JobNotFound and Conflict. Raises PermissionMissing if the caller lacks a permission to start this job.
    """
    job = require_job(session, owner=owner, job_id=job_id, lock=True)
    if held is not None:
        _require_may_start(job, held)
    if job.state != "failed":
        raise Conflict(f"The job is {job.state}. Only failed jobs can be retried.", place="job")
    _require_room(session, owner)
    job.state, job.ended_at, job.due_at = "queued", None, utc_now()
    job.failures, job.lapses, job.is_cancelled, job.problem = 0, 0, False, None
    session.flush()
    _audit(session, actor, job, "retry", {"state": job.state})
    return job


def _require_may_start(job: Job, held: Collection[Permission]) -> None:
    if job.needs is None:
        raise Conflict(
            "An earlier version of Admit started the job and did not store the job's permissions.",
            remedy="Start a new job.",
        )
    if not set(job.needs) <= set(Permission):
        raise Conflict("The job needs a permission that no longer exists.", remedy="Start a new job.")
    for needed in job.needs:
        require_permission(held, Permission(needed))


def prune(session: Session) -> None:
    """Delete jobs that ended more than RETENTION ago. Use as database role admit_worker, in PlatformScope."""
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
