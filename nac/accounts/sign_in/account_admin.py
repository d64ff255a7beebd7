"""Administration of other people's accounts by the platform. All functions need PlatformScope.

A caller who creates a password link or resets factors of a person could then sign in as this person. The caller must
therefore have all permissions that the person has at any tenant, at any MSP and on the platform.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy.orm import Session

from nac.accounts.members import repository as memberships
from nac.accounts.members import service as members
from nac.accounts.people import service as people
from nac.accounts.sign_in import links, repository, sign_ins
from nac.accounts.sign_in.second_factors import list_second_factors
from nac.core.access.grants import Owner, PermissionMissing
from nac.kit.db import enter_person
from nac.kit.permissions import Permission
from nac.models import Membership, Person, SignIn

# Maximum number of sign-ins in an AccountOverview, newest first.
MAX_SIGN_INS = 200


@dataclass(frozen=True, slots=True)
class AccountOverview:
    person: Person
    # Second factors of the account.
    methods: tuple[str, ...]
    sign_ins: Sequence[SignIn]
    memberships: Sequence[Membership]


def lock_account(session: Session, *, person_id: UUID) -> None:
    """Lock the account, so that no other transaction can change the account's status until this transaction ends."""
    # Lock the memberships first and the person second, like the functions that change members.
    members.lock_managers(session, owner=Owner())
    people.lock_person(session, person_id=person_id)


def get_account(session: Session, *, person_id: UUID) -> AccountOverview:
    person = people.require_person(session, person_id=person_id)
    enter_person(session, person.id)
    newest = repository.ORDERS.first(MAX_SIGN_INS)
    return AccountOverview(
        person,
        list_second_factors(session, person_id=person.id),
        repository.list_for_person(session, person.id, sign_ins.valid_clause(), sign_on_id=None, span=newest),
        [row for row, _, _ in memberships.list_for_person(session, person.id)],
    )


def require_may_manage(session: Session, *, held: Collection[Permission], person_id: UUID) -> Person:
    """Return the person. Raises PersonNotFound.

    Raises PermissionMissing if the person has a permission that is not in `held` (the caller's permissions).
    """
    person = people.require_person(session, person_id=person_id)
    enter_person(session, person.id)
    grants = members.list_grants(session, person_id=person.id)
    more = frozenset[Permission]().union(*(grant.permissions for grant in grants)).difference(held)
    if more:
        raise PermissionMissing(
            f"This person has permissions that you do not have: {', '.join(sorted(more))}.",
            remedy="Ask an administrator who has all these permissions.",
        )
    return person


def update_status(
    session: Session, *, actor: str, held: Collection[Permission], person_id: UUID, status: str
) -> Person:
    """Disable or enable the account. Raises LastManager, PermissionMissing and PersonNotFound."""
    require_may_manage(session, held=held, person_id=person_id)
    is_disabled = status == "disabled"
    if is_disabled:
        managers = members.lock_managers(session, owner=Owner())
        managers.require_without(repository.list_membership_ids(session, Owner(), person_id))
    return people.set_disabled(session, actor=actor, person_id=person_id, disabled=is_disabled)


def end_sign_ins(session: Session, *, actor: str, held: Collection[Permission], person_id: UUID) -> None:
    person = require_may_manage(session, held=held, person_id=person_id)
    sign_ins.end_all(session, actor=actor, person=person)


def reset_factors(session: Session, *, actor: str, held: Collection[Permission], person_id: UUID) -> None:
    person = require_may_manage(session, held=held, person_id=person_id)
    sign_ins.reset_factors(session, actor=actor, person=person)


def create_link(session: Session, *, actor: str, held: Collection[Permission], person_id: UUID) -> links.CreatedLink:
    """Create a password link. Earlier links of the person become invalid."""
    person = require_may_manage(session, held=held, person_id=person_id)
    return links.create_link(session, actor=actor, person=person)
