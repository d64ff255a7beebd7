from uuid import UUID

from sqlalchemy import exists, func, select
from sqlalchemy.orm import Session

from nac.models import Membership, Person


def get(session: Session, person_id: UUID) -> Person | None:
    return session.get(Person, person_id, populate_existing=True)


def id_of_email(session: Session, email: str) -> UUID | None:
    """In any scope."""
    return session.scalar(select(func.person_of_email(email)))


def ensure(session: Session, email: str, name: str) -> UUID:
    """In any scope; made where there is none."""
    made: UUID = session.scalars(select(func.ensure_person(email, name))).one()
    return made


def is_member(session: Session, person_id: UUID) -> bool:
    """Of the platform, an MSP or a tenant. In PlatformScope."""
    return session.scalars(select(exists().where(Membership.person_id == person_id))).one()
