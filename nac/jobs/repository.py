from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from sqlalchemy import delete, func, select, text, tuple_
from sqlalchemy.orm import Session

from nac.accounts.owners import Owner
from nac.models import Job

_TAKE = text("SELECT id, msp_id, tenant_id FROM take_job(:lease, :most)")


class Place(NamedTuple):
    """Of a job in the list of its owner's."""

    created_at: datetime
    id: UUID


class Taken(NamedTuple):
    id: UUID
    owner: Owner


def list_page(
    session: Session, owner: Owner, *, states: Sequence[str], kind: str, before: Place | None, limit: int
) -> Sequence[Job]:
    query = select(Job).where(owner.owns(Job)).order_by(Job.created_at.desc(), Job.id.desc()).limit(limit)
    if states:
        query = query.where(Job.state.in_(states))
    if kind:
        query = query.where(Job.kind == kind)
    if before is not None:
        query = query.where(tuple_(Job.created_at, Job.id) < tuple_(*before))
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
