from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from sqlalchemy import Uuid, bindparam, exists, func, select, text, update
from sqlalchemy.orm import Session

from nac.kit.db.queries import contains_text
from nac.kit.db.sort_orders import PageSpan, SortOrders
from nac.models import Membership, Person, SignIn

ORDERS = SortOrders({"email": (Person.email,), "created_at": (Person.created_at, Person.id)})
_CAN_SIGN_IN = text("SELECT person_id FROM able_to_sign_in(ARRAY[:person], NULL, NULL)").bindparams(
    bindparam("person", type_=Uuid())
)


def get(session: Session, person_id: UUID) -> Person | None:
    return session.get(Person, person_id, populate_existing=True)


def lock_person(session: Session, person_id: UUID) -> None:
    session.execute(select(Person.id).where(Person.id == person_id).with_for_update())


def get_id_by_email(session: Session, email: str) -> UUID | None:
    """Id of the person with this address. Works in any database scope."""
    return session.scalar(select(func.person_of_email(email)))


def list_page(session: Session, *, span: PageSpan, text: str, status: str) -> Sequence[Person]:
    query = span.of(select(Person))
    if text:
        query = query.where(contains_text(text, Person.email, Person.name))
    if status:
        query = query.where(Person.status == status)
    return session.scalars(query.execution_options(populate_existing=True)).all()


def get_or_create(session: Session, email: str, name: str) -> UUID:
    """Return the id of the person with this address. Creates the person if no person has this address.

    Works in any database scope.
    """
    made: UUID = session.scalars(select(func.ensure_person(email, name))).one()
    return made


def end_sign_ins(session: Session, person_id: UUID, now: datetime) -> None:
    statement = update(SignIn).where(SignIn.person_id == person_id, SignIn.ended_at.is_(None)).values(ended_at=now)
    session.execute(statement, execution_options={"synchronize_session": False})


def has_accepted_membership(session: Session, person_id: UUID) -> bool:
    """Whether the person has accepted any membership. Needs PlatformScope."""
    found = exists().where(Membership.person_id == person_id, Membership.accepted_at.is_not(None))
    return session.scalars(select(found)).one()


def can_sign_in(session: Session, person_id: UUID) -> bool:
    """Whether the person can sign in without an identity provider. Works in any database scope."""
    return session.scalar(_CAN_SIGN_IN, {"person": person_id}) is not None
