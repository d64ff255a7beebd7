from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

from sqlalchemy import ColumnElement, delete, func, select, text
from sqlalchemy.orm import Session

from nac.core.access.owners import Owner
from nac.kit.db.queries import BoundedPage, search_bounded
from nac.kit.db.sort_orders import PageSpan, SortOrders
from nac.models import Job

ORDERS = SortOrders({"created_at": (Job.created_at, Job.id)}, default="-created_at")
# For each owner without a running job: its oldest due job. The random order gives all owners the same chance.
# The outer WHERE repeats the conditions, because a worker may have renewed the row meanwhile.
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
    """Return jobs that the caller must send to workers. If no worker takes a job, the job is due again after
    `resend_after`.

    A job whose worker lost its lease is queued again. Use as database role admit_worker, in PlatformScope.
    """
    rows = session.execute(_CLAIM, {"resend_after": resend_after, "most": most})
    return [DueJob(row.id, row.kind, row.failures) for row in rows]


def take(session: Session, job_id: UUID, *, lease: timedelta, most: int) -> Job | None:
    """Lease a queued job. Returns None if `most` jobs run already, or if another job of the same owner runs.

    Use as database role admit_worker, in PlatformScope.
    """
    # Workers take jobs one after the other, so that each worker sees the jobs that run.
    session.execute(select(func.pg_advisory_xact_lock(func.hashtext("jobs.take"))))
    values = {"id": job_id, "lease": lease, "most": most}
    job: Job | None = session.scalar(select(Job).from_statement(_TAKE), values)
    return job


def delete_ended(session: Session, *, before: datetime) -> None:
    session.execute(delete(Job).where(Job.ended_at < before))
