"""Accounts of people. For their memberships in tenants, MSPs and the platform, see `nac.accounts.members`.

Functions with PersonScope are for people who change their own account. Functions with PlatformScope are for the
platform's operator.
"""

from collections.abc import Sequence
from uuid import UUID

from sqlalchemy.orm import Session

from nac.accounts.people import repository
from nac.accounts.people.repository import ORDERS as ORDERS
from nac.core.audit import service as audit
from nac.kit.clock import utc_now
from nac.kit.db.sort_orders import PageSpan
from nac.kit.errors import InvalidInput, NotFound
from nac.kit.passwords import hash_password
from nac.kit.validation import require_email, require_name
from nac.models import Person

MINIMUM_PASSWORD_CHARACTERS = 12
_MAXIMUM_PASSWORD_CHARACTERS = 200


class PersonNotFound(NotFound):
    """The person does not exist."""


def require_password(text: str, *, email: str = "", place: str = "password") -> str:
    """Check that the password has an allowed length and is not the e-mail address.

    NIST SP 800-63B 5.1.1.2 advises against rules about the characters in a password.
    """
    if not MINIMUM_PASSWORD_CHARACTERS <= len(text) <= _MAXIMUM_PASSWORD_CHARACTERS:
        raise InvalidInput(
            "The password is too short." if len(text) < MINIMUM_PASSWORD_CHARACTERS else "The password is too long.",
            place=place,
            remedy=f"Choose a password of {MINIMUM_PASSWORD_CHARACTERS} to {_MAXIMUM_PASSWORD_CHARACTERS} characters.",
        )
    if text.lower() in (email, email.partition("@")[0]) or len(set(text)) < 4:
        raise InvalidInput("The password is easy to guess.", place=place, remedy="Choose a few random words.")
    return text


def get_or_create_person(session: Session, *, email: str, name: str = "") -> UUID:
    """Return the id of the account with this address. Creates the account if it does not exist.

    The result does not reveal whether the account existed before. Works in any database scope.
    """
    email = require_email(email)
    return repository.get_or_create(session, email, require_name(name) if name.strip() else "")


def find_person_id(session: Session, *, email: str) -> UUID | None:
    """Id of the person with this address; None if the address is unknown or invalid. Works in any database scope."""
    try:
        return repository.get_id_by_email(session, require_email(email))
    except InvalidInput:
        return None


def has_account(session: Session, *, email: str) -> bool:
    """Whether this address has an account that has been used or disabled. Needs PlatformScope.

    The account of an unused invitation does not count. Otherwise strangers could invite an address, and so prevent a
    sign-up with this address.
    """
    person_id = repository.get_id_by_email(session, require_email(email))
    if person_id is None:
        return False
    return (
        require_person(session, person_id=person_id).status != "active"
        or repository.can_sign_in(session, person_id)
        or repository.has_accepted_membership(session, person_id)
    )


def lock_person(session: Session, *, person_id: UUID) -> None:
    """Lock the account until the transaction ends."""
    repository.lock_person(session, person_id)


def require_person(session: Session, *, person_id: UUID) -> Person:
    person = repository.get(session, person_id)
    if person is None:
        raise PersonNotFound("This person does not exist.", place="person")
    return person


def require_by_email(session: Session, *, email: str) -> Person:
    """Person with this address. Needs PlatformScope."""
    person_id = repository.get_id_by_email(session, require_email(email))
    if person_id is None:
        raise PersonNotFound(f"Account {email.strip().lower()} does not exist.", place="email")
    return require_person(session, person_id=person_id)


def list_people(
    session: Session, *, span: PageSpan | None = None, text: str = "", status: str = ""
) -> Sequence[Person]:
    """List people. `text` is a part of the e-mail address or the name; "" lists all. Needs PlatformScope."""
    return repository.list_page(session, span=span or ORDERS.first(), text=text, status=status)


def create_person(session: Session, *, actor: str, email: str, name: str = "") -> Person:
    """Create a person, or return the existing person with this address. Needs PlatformScope."""
    is_new = repository.get_id_by_email(session, require_email(email)) is None
    person = require_person(session, person_id=get_or_create_person(session, email=email, name=name))
    if is_new:
        audit.append(session, actor=actor, action="person.add", target=person.email)
    return person


def set_password(session: Session, *, actor: str, person_id: UUID, password: str) -> Person:
    """Set the password. Needs PersonScope."""
    person = require_person(session, person_id=person_id)
    require_password(password, email=person.email)
    person.password_hash = hash_password(password)
    session.flush()
    audit.append(session, actor=actor, action="person.change-password", target=person.email)
    return person


def rename_person(session: Session, *, actor: str, person_id: UUID, name: str) -> Person:
    """Change the name. Needs PersonScope."""
    person = require_person(session, person_id=person_id)
    before, person.name = person.name, require_name(name)
    session.flush()
    if before != person.name:
        was, now = {"name": before}, {"name": person.name}
        audit.append(session, actor=actor, action="person.rename", target=person.email, before=was, after=now)
    return person


def set_disabled(session: Session, *, actor: str, person_id: UUID, disabled: bool) -> Person:
    """Disable or enable the account. Disabling ends the person's sign-ins. Needs PlatformScope."""
    person = require_person(session, person_id=person_id)
    status = "disabled" if disabled else "active"
    if person.status != status:
        person.status = status
        session.flush()
        repository.end_sign_ins(session, person_id, utc_now())
        audit.append(session, actor=actor, action=f"person.{'disable' if disabled else 'enable'}", target=person.email)
    return person
