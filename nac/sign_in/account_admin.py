"""Accounts of others, for who runs the platform. In PlatformScope, which enters the account.

Whoever makes a link for somebody, or takes a second factor away, could be that person: it takes all that the person
may do, wherever that is.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy.orm import Session

from nac.accounts.grants import PermissionMissing
from nac.accounts.owners import Owner
from nac.accounts.permissions import Permission
from nac.db import enter_person
from nac.members import repository as memberships
from nac.members import service as members
from nac.models import Membership, Person, SignIn
from nac.people import service as people
from nac.sign_in import factor_reset, links, repository, sign_ins
from nac.sign_in.second_factors import list_second_factors

# Of an account that is looked at, the newest.
MAX_SIGN_INS = 200


@dataclass(frozen=True, slots=True)
class AccountOverview:
    person: Person
    # What beside the password signs in.
    methods: tuple[str, ...]
    sign_ins: Sequence[SignIn]
    memberships: Sequence[Membership]


def lock_account(session: Session, *, person_id: UUID) -> None:
    """Whether the account is disabled stays until the transaction ends."""
    # First, as whoever changes members does.
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
    """Raises PersonNotFound, and PermissionMissing where the person may do what who asks may not."""
    person = people.require_person(session, person_id=person_id)
    enter_person(session, person.id)
    grants = members.list_grants(session, person_id=person.id)
    more = frozenset[Permission]().union(*(grant.permissions for grant in grants)).difference(held)
    if more:
        raise PermissionMissing(
            f"This person may do what you may not: {', '.join(sorted(more))}.", remedy="Ask somebody who may do both."
        )
    return person


def update_status(
    session: Session, *, actor: str, held: Collection[Permission], person_id: UUID, status: str
) -> Person:
    """Raises LastManager."""
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
    factor_reset.reset_factors(session, actor=actor, person=person)


def create_link(session: Session, *, actor: str, held: Collection[Permission], person_id: UUID) -> links.CreatedLink:
    """Those of before are good no more."""
    person = require_may_manage(session, held=held, person_id=person_id)
    return links.create_link(session, actor=actor, person=person)
