"""Sign-in rules of an owner (tenant, MSP or platform): whether members must use two factors or single sign-on.

Functions need the database scope of the owner, unless their docstring names another scope.
"""

from typing import Any
from uuid import UUID

from sqlalchemy import func, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from nac.accounts.members import service as members
from nac.accounts.sign_in import repository
from nac.accounts.sign_in.sign_ins import SignedInPerson
from nac.accounts.sign_in_errors import SecondFactorNeeded, SignOnNotProven
from nac.accounts.sign_ons import service
from nac.core.access.grants import Owner
from nac.core.audit import service as audit
from nac.kit.errors import Conflict, InvalidInput
from nac.kit.ids import MspId, TenantId
from nac.kit.permissions import PermissionLevel
from nac.models import Person, SignIn, SignInRule


def get_rule(session: Session, *, owner: Owner, lock: bool = False) -> SignInRule:
    """Return the rules of the owner. If the owner has no rules, returns the default rules.

    With `lock`, no other transaction can change the owner's rules or single sign-on until this transaction ends.
    """
    if lock:
        service.lock_owner(session, owner)
    row = session.scalar(select(SignInRule).where(owner.owns(SignInRule)).execution_options(populate_existing=True))
    return row if row is not None else SignInRule(two_factors=False, sign_on_only=False, **owner.columns())


def get_local_email(session: Session, row: SignInRule) -> str | None:
    """E-mail address of the only member who can sign in without single sign-on, or None."""
    return session.scalar(select(Person.email).where(Person.id == row.local_person_id)) if row.local_person_id else None


def _get_or_create(session: Session, owner: Owner) -> SignInRule:
    """Lock the rules of the owner. Creates the rules if they do not exist."""
    session.execute(insert(SignInRule).values(**owner.columns()).on_conflict_do_nothing())
    query = select(SignInRule).where(owner.owns(SignInRule)).with_for_update()
    return session.scalars(query.execution_options(populate_existing=True)).one()


def update_rule(
    session: Session,
    *,
    actor: str,
    owner: Owner,
    two_factors: bool,
    by: SignedInPerson | None,
    sign_on_only: bool | None = None,
    local_account: str | None = None,
) -> SignInRule:
    """Change the rules. `by` is the caller's sign-in; None if the caller is a token.

    `local_account` is the e-mail address of the only member who can sign in without single sign-on. "" means that all
    members need single sign-on. None leaves the local account unchanged.

    Raises SecondFactorNeeded if the caller would lose access. Raises SignOnNotProven if all members could lose access.
    """
    if two_factors and by is not None and not by.has_two_factors:
        raise SecondFactorNeeded(
            "You would lose your own access, because you signed in with one factor.",
            remedy="Sign in with two factors first.",
        )
    service.lock_owner(session, owner)
    row = _get_or_create(session, owner)
    before = _audit_values(session, row)
    if local_account is not None:
        row.local_person_id = _require_local_account(session, owner, local_account) if local_account else None
    if sign_on_only and not row.sign_on_only:
        _require_proven(session, owner)
    row.two_factors = two_factors
    row.sign_on_only = row.sign_on_only if sign_on_only is None else sign_on_only
    session.flush()
    after = _audit_values(session, row)
    if before != after:
        action, where = "sign-in-rules.change", owner.columns()
        audit.append(session, actor=actor, action=action, target="sign-in", before=before, after=after, **where)
    return row


def _audit_values(session: Session, row: SignInRule) -> dict[str, Any]:
    email = get_local_email(session, row)
    return {"two_factors": row.two_factors, "sign_on_only": row.sign_on_only, "local_account": email}


def _require_local_account(session: Session, owner: Owner, email: str) -> UUID:
    """Return the id of the member with this address.

    Raises InvalidInput if the member has never signed in, or has only one factor.
    """
    found = members.get_by_email(session, owner=owner, email=email.strip().lower())
    if found is None or found.membership.accepted_at is None:
        raise InvalidInput("No member with this e-mail address has signed in.", place="local_account")
    if not session.scalar(select(func.has_two_factors(found.person.id))):
        remedy = "The member must first add an authenticator app or a passkey."
        raise InvalidInput("This account can sign in with only one factor.", place="local_account", remedy=remedy)
    return found.person.id


def _require_proven(session: Session, owner: Owner) -> None:
    """Raise SignOnNotProven if no member who can manage members has signed in with the provider's current settings."""
    if owner.level is PermissionLevel.PLATFORM:
        raise InvalidInput("The platform has no single sign-on.", place="sign_on_only")
    sign_on = service.get(session, owner)
    if sign_on is None:
        raise Conflict("Single sign-on is not set up.", place="sign_on_only", remedy="Set up single sign-on first.")
    managers = members.lock_managing_people(session, owner=owner)
    came = select(SignIn.person_id).where(SignIn.sign_on_id == sign_on.id, SignIn.created_at >= sign_on.updated_at)
    if managers.isdisjoint(session.scalars(came)):
        raise SignOnNotProven(
            place="sign_on_only",
            remedy="Sign in with the single sign-on as a member who can manage members, then try again.",
        )


def wants_two_factors(session: Session, *, msp_id: MspId | None, tenant_id: TenantId | None) -> bool:
    """Whether the platform, the MSP or the tenant requires two factors from its members.

    Works in any database scope.
    """
    return repository.wants_two_factors(session, msp_id, tenant_id)
