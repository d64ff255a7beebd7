from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

from sqlalchemy import ColumnElement, delete, func, select, text
from sqlalchemy.orm import Session

from nac.core.access.owners import Owner
from nac.kit.db.bounded_search import BoundedPage, search_bounded
from nac.kit.db.sort_orders import PageSpan, SortOrders
from nac.models import Job

ORDERS = SortOrders({"created_at": (Job.created_at, Job.id)}, default="-created_at")
_TAKE = text("SELECT id, msp_id, tenant_id FROM take_job(:lease, :most)")


class JobReference(NamedTuple):
    id: UUID
    owner: Owner


def search(
    session: Session, owner: Owner, *, states: Sequence[str], kind: str, span: PageSpan, in_full: bool = False
) -> BoundedPage[Job]:
    def told_apart(each: Any) -> list[ColumnElement[bool]]:  # noqa: ANN401 -- jobs, or an alias of them
        of_state = [each.state.in_(states)] if states else []
        return [*of_state, each.kind == kind] if kind else of_state

    return search_bounded(session, Job, [owner.owns(Job)], told_apart, span, in_full=in_full)


def get(session: Session, owner: Owner, job_id: UUID, *, lock: bool = False) -> Job | None:
    query = select(Job).where(owner.owns(Job), Job.id == job_id)
    if lock:
        query = query.with_for_update()
    return session.scalar(query.execution_options(populate_existing=True))


def count_waiting(session: Session, owner: Owner) -> int:
    query = select(func.count()).select_from(Job).where(owner.owns(Job), Job.state.in_(("queued", "running")))
    return session.scalars(query).one()


def take_due(session: Session, *, lease: timedelta, most: int) -> JobReference | None:
    """Lease the next job. Use as admit_worker, in PlatformScope."""
    row = session.execute(_TAKE, {"lease": lease, "most": most}).one_or_none()
    return None if row is None else JobReference(row.id, Owner(row.msp_id, row.tenant_id))


def delete_ended(session: Session, *, before: datetime) -> None:
    session.execute(delete(Job).where(Job.ended_at < before))
