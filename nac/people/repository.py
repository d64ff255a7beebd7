from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from sqlalchemy import exists, func, or_, select, update
from sqlalchemy.orm import Session

from nac.models import Membership, Person, SignIn


def get(session: Session, person_id: UUID) -> Person | None:
    return session.get(Person, person_id, populate_existing=True)


def id_of_email(session: Session, email: str) -> UUID | None:
    """In any scope."""
    return session.scalar(select(func.person_of_email(email)))


def list_page(session: Session, *, after_email: str, limit: int, text: str, status: str) -> Sequence[Person]:
    query = select(Person).where(Person.email > after_email).order_by(Person.email).limit(limit)
    if text:
        query = query.where(
            or_(Person.email.icontains(text, autoescape=True), Person.name.icontains(text, autoescape=True))
        )
    if status:
        query = query.where(Person.status == status)
    return session.scalars(query.execution_options(populate_existing=True)).all()


def ensure(session: Session, email: str, name: str) -> UUID:
    """In any scope; made where there is none."""
    made: UUID = session.scalars(select(func.ensure_person(email, name))).one()
    return made


def end_sign_ins(session: Session, person_id: UUID, now: datetime) -> None:
    statement = update(SignIn).where(SignIn.person_id == person_id, SignIn.ended_at.is_(None)).values(ended_at=now)
    session.execute(statement, execution_options={"synchronize_session": False})


def is_member(session: Session, person_id: UUID) -> bool:
    """Of the platform, an MSP or a tenant. In PlatformScope."""
    return session.scalars(select(exists().where(Membership.person_id == person_id))).one()
