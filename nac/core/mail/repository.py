"""Queries for queued mails."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import CursorResult, delete, func, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from nac.models import Mail


def create(session: Session, values: Mapping[str, Any]) -> None:
    """Add a mail, unless a mail with the key in `values` exists."""
    session.execute(insert(Mail).values(**values).on_conflict_do_nothing(index_elements=["key"]))


def count_since(session: Session, recipient: str, since: datetime) -> int:
    query = select(func.count()).select_from(Mail).where(Mail.recipient == recipient, Mail.created_at >= since)
    return session.scalars(query).one()


def take_due(session: Session, *, now: datetime, lease: timedelta, most: int) -> Sequence[Mail]:
    """Lease and return up to `most` due mails."""
    due = (
        select(Mail)
        .where(Mail.state == "queued", Mail.due_at <= now)
        .order_by(Mail.due_at)
        .limit(most)
        .with_for_update(skip_locked=True)
    )
    mails = session.scalars(due).all()
    for mail in mails:
        mail.due_at = now + lease
        mail.attempts += 1
    session.flush()
    return mails


def update_mail(session: Session, mail_id: UUID, attempt: int, **values: object) -> None:
    """Change a mail, unless another worker has leased the mail since the attempt with this number."""
    session.execute(update(Mail).where(Mail.id == mail_id, Mail.attempts == attempt).values(**values))


def delete_ended(session: Session, *, before: datetime) -> int:
    result = session.execute(delete(Mail).where(Mail.ended_at < before))
    assert isinstance(result, CursorResult)
    return result.rowcount
