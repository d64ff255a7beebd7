"""Background jobs: start, list, cancel and retry. The owner of a job is a tenant, an MSP or the platform.

The transaction of the request stores the job and its input. Within a second, the worker sends a Celery message for the
job (`worker.jobs.client_jobs`). A worker process that gets the message runs the job (`nac.core.jobs.runner`).
"""

import json
import zlib
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Literal, NamedTuple
from uuid import UUID, uuid4

from sqlalchemy import ColumnElement, delete, func, select, text
from sqlalchemy.orm import Session

from nac.core.access.grants import Owner
from nac.core.access.grants import require_permissions as require_permission
from nac.core.audit import service as audit
from nac.kit.clock import utc_now
from nac.kit.db import lock_quota
from nac.kit.db.queries import BoundedPage, search_bounded
from nac.kit.db.sort_orders import PageSpan, SortOrders
from nac.kit.errors import Conflict, InvalidInput, NotFound
from nac.kit.permissions import Permission
from nac.kit.sealing import Seal, Unseal
from nac.models import Job

ORDERS = SortOrders({"created_at": (Job.created_at, Job.id)}, default="-created_at")
# Selects the oldest due job of each owner (tenant, MSP or platform) that has no running job. The random order gives all
# owners the same chance. The outer WHERE repeats the conditions, because a worker may have renewed the lease of a
# selected job meanwhile.
_CLAIM = text(
    """
UPDATE jobs j SET
    state = 'queued', lapses = j.lapses + (j.state = 'running')::int, due_at = now() + :resend_after
WHERE j.state IN ('queued', 'running') AND j.due_at <= now() AND j.id IN (
    SELECT w.id FROM (
        SELECT DISTINCT ON (q.msp_id, q.tenant_id) q.id FROM jobs q
        WHERE q.state IN ('queued', 'running') AND q.due_at <= now() AND NOT EXISTS (
            SELECT FROM jobs r WHERE r.state = 'running' AND r.due_at > now()
                AND r.msp_id IS NOT DISTINCT FROM q.msp_id AND r.tenant_id IS NOT DISTINCT FROM q.tenant_id
        )
        ORDER BY q.msp_id, q.tenant_id, q.created_at, q.id
    ) w
    ORDER BY random()
    LIMIT (SELECT greatest(:most - count(*), 0) FROM jobs r WHERE r.state = 'running' AND r.due_at > now())
)
RETURNING j.id, j.kind, j.failures
"""
)
_TAKE = text(
    """
UPDATE jobs j SET
    state = 'running', takes = j.takes + 1, due_at = now() + :lease, started_at = coalesce(j.started_at, now()),
    problem = NULL
WHERE j.id = :id AND j.state = 'queued'
    AND (SELECT count(*) FROM jobs r WHERE r.state = 'running' AND r.due_at > now()) < :most
    AND NOT EXISTS (
        SELECT FROM jobs r WHERE r.state = 'running' AND r.due_at > now()
            AND r.msp_id IS NOT DISTINCT FROM j.msp_id AND r.tenant_id IS NOT DISTINCT FROM j.tenant_id
    )
RETURNING j.*
"""
)


class DueJob(NamedTuple):
    id: UUID
    kind: str
    failures: int


def search(
    session: Session, owner: Owner, *, states: Sequence[str], kind: str, span: PageSpan, in_full: bool = False
) -> BoundedPage[Job]:
    def list_conditions(each: Any) -> list[ColumnElement[bool]]:  # noqa: ANN401 -- jobs, or an alias of them
        of_state = [each.state.in_(states)] if states else []
        return [*of_state, each.kind == kind] if kind else of_state

    return search_bounded(session, Job, [owner.owns(Job)], list_conditions, span, in_full=in_full)


def get(session: Session, owner: Owner, job_id: UUID, *, lock: bool = False) -> Job | None:
    query = select(Job).where(owner.owns(Job), Job.id == job_id)
    if lock:
        query = query.with_for_update()
    return session.scalar(query.execution_options(populate_existing=True))


def count_waiting(session: Session, owner: Owner) -> int:
    query = select(func.count()).select_from(Job).where(owner.owns(Job), Job.state.in_(("queued", "running")))
    return session.scalars(query).one()


def claim_due(session: Session, *, resend_after: timedelta, most: int) -> Sequence[DueJob]:
    """Return due jobs. The caller must send a message for each job to the workers.

    If no worker leases a returned job within `resend_after`, the job is due again. A running job is also due if its
    lease expired. Needs database role admit_worker and PlatformScope.
    """
    rows = session.execute(_CLAIM, {"resend_after": resend_after, "most": most})
    return [DueJob(row.id, row.kind, row.failures) for row in rows]


def take(session: Session, job_id: UUID, *, lease: timedelta, most: int) -> Job | None:
    """Lease a queued job. Returns None if `most` jobs run already, or if another job of the job's owner runs.

    Needs database role admit_worker and PlatformScope.
    """
    # Workers take jobs one after the other, so that each worker sees the jobs that other workers run.
    session.execute(select(func.pg_advisory_xact_lock(func.hashtext("jobs.take"))))
    values = {"id": job_id, "lease": lease, "most": most}
    job: Job | None = session.scalar(select(Job).from_statement(_TAKE), values)
    return job


def delete_ended(session: Session, *, before: datetime) -> None:
    session.execute(delete(Job).where(Job.ended_at < before))


STATES = ("queued", "running", "done", "failed", "cancelled")
_OPEN = ("queued", "running")
# Maximum number of queued and running jobs of one tenant, one MSP or the platform.
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
    """Create a job, which starts after the commit. Needs the database scope of the owner.

    `kind` selects the worker's handler. `input` is the JSON input of the handler and may contain secrets. `title`
    describes the job to users. `needs` are the permissions that a user needs to start or retry the job. The caller must
    check these permissions before this call; only `retry_job` checks them itself. Raises Conflict if too many jobs
    wait. Raises InvalidInput if the input is too large.
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
        requested_by=actor,
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
    if count_waiting(session, owner) >= MAX_WAITING:
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
    """List jobs, by default newest first. `states` selects jobs in these states; an empty `states` selects all jobs."""
    return search(session, owner, states=states, kind=kind, span=span or ORDERS.first(), in_full=True).rows


def search_jobs(
    session: Session, *, owner: Owner, states: Sequence[str], kind: str, span: PageSpan
) -> BoundedPage[Job]:
    """Search jobs like `list_jobs`, but read only a limited number of rows. The page can therefore be incomplete."""
    return search(session, owner, states=states, kind=kind, span=span)


def require_job(session: Session, *, owner: Owner, job_id: UUID, lock: bool = False) -> Job:
    job = get(session, owner, job_id, lock=lock)
    if job is None:
        raise JobNotFound("This job does not exist.", place="job")
    return job


def cancel_job(session: Session, *, actor: str, owner: Owner, job_id: UUID) -> Job:
    """Cancel a job. A running job stops at its next step. Changes that the job has already committed remain.

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
    """Delete jobs that ended more than RETENTION ago. Needs database role admit_worker and PlatformScope."""
    delete_ended(session, before=utc_now() - RETENTION)


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
