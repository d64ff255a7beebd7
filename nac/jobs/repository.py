from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from sqlalchemy import delete, func, select, text
from sqlalchemy.orm import Session

from nac.accounts.owners import Owner
from nac.db.orders import Orders, Span
from nac.models import Job

ORDERS = Orders({"created_at": (Job.created_at, Job.id)}, default="-created_at")
_TAKE = text("SELECT id, msp_id, tenant_id FROM take_job(:lease, :most)")


class Taken(NamedTuple):
    id: UUID
    owner: Owner


def list_page(session: Session, owner: Owner, *, states: Sequence[str], kind: str, span: Span) -> Sequence[Job]:
    query = span.of(select(Job).where(owner.owns(Job)))
    if states:
        query = query.where(Job.state.in_(states))
    if kind:
        query = query.where(Job.kind == kind)
    return session.scalars(query.execution_options(populate_existing=True)).all()


def get(session: Session, owner: Owner, job_id: UUID, *, lock: bool = False) -> Job | None:
    query = select(Job).where(owner.owns(Job), Job.id == job_id)
    if lock:
        query = query.with_for_update()
    return session.scalar(query.execution_options(populate_existing=True))


def count_waiting(session: Session, owner: Owner) -> int:
    query = select(func.count()).select_from(Job).where(owner.owns(Job), Job.state.in_(("queued", "running")))
    return session.scalars(query).one()


def take(session: Session, *, lease: timedelta, most: int) -> Taken | None:
    """As admit_worker, in PlatformScope."""
    row = session.execute(_TAKE, {"lease": lease, "most": most}).one_or_none()
    return None if row is None else Taken(row.id, Owner(row.msp_id, row.tenant_id))


def delete_ended(session: Session, *, before: datetime) -> None:
    session.execute(delete(Job).where(Job.ended_at < before))
