"""What a place asks of those who come in: two factors, or its own provider. In the scope of the owner."""

from typing import Any
from uuid import UUID

from sqlalchemy import func, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from nac.accounts.owners import Owner
from nac.accounts.permissions import Level
from nac.audit import service as audit
from nac.errors import Conflict, InvalidInput
from nac.ids import MspId, TenantId
from nac.members import service as members
from nac.models import Person, SignIn, SignInRule
from nac.sign_in import repository
from nac.sign_in.errors import SecondFactorNeeded, SignOnNotProven
from nac.sign_in.sign_ins import SignedInPerson
from nac.sign_ons import repository as sign_ons


def get_rule(session: Session, *, owner: Owner, lock: bool = False) -> SignInRule:
    """As it is, or would be where nobody has said anything; `lock` keeps it so until the transaction ends."""
    if lock:
        sign_ons.lock_owner(session, owner)
    row = session.scalar(select(SignInRule).where(owner.owns(SignInRule)).execution_options(populate_existing=True))
    return row if row is not None else SignInRule(two_factors=False, sign_on_only=False, **owner.columns())


def get_local_email(session: Session, row: SignInRule) -> str | None:
    """Of the account that comes in without the provider, as long as it is a member's."""
    return session.scalar(select(Person.email).where(Person.id == row.local_person_id)) if row.local_person_id else None


def _get_or_create(session: Session, owner: Owner) -> SignInRule:
    """Locked: who says something at the same time waits."""
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
    """`by` is the person who asks, None for a program; None of the others leaves it, "" names nobody.

    Raises SecondFactorNeeded where that one would be shut out, and SignOnNotProven where all might be.
    """
    if two_factors and by is not None and not by.has_two_factors:
        raise SecondFactorNeeded("You would be shut out yourself.", remedy="Sign in with two factors first.")
    sign_ons.lock_owner(session, owner)
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
    """Of a member who has come in, and has two factors."""
    found = members.get_by_email(session, owner=owner, email=email.strip().lower())
    if found is None or found.membership.accepted_at is None:
        raise InvalidInput("This is no member who has come in here.", place="local_account")
    if not session.scalar(select(func.has_two_factors(found.person.id))):
        remedy = "That person adds an authenticator app or a passkey first."
        raise InvalidInput("This account has one factor.", place="local_account", remedy=remedy)
    return found.person.id


def _require_proven(session: Session, owner: Owner) -> None:
    """Somebody who can take the rule back has come in by the provider, since it was set up or changed."""
    if owner.level is Level.PLATFORM:
        raise InvalidInput("The platform has no single sign-on.", place="sign_on_only")
    sign_on = sign_ons.get(session, owner)
    if sign_on is None:
        raise Conflict("There is no single sign-on here.", place="sign_on_only", remedy="Set it up first.")
    managers = members.lock_managing_people(session, owner=owner)
    came = select(SignIn.person_id).where(SignIn.sign_on_id == sign_on.id, SignIn.created_at >= sign_on.updated_at)
    if managers.isdisjoint(session.scalars(came)):
        raise SignOnNotProven(
            place="sign_on_only", remedy="Somebody who may manage members signs in by it once, and then again this."
        )


def wants_two_factors(session: Session, *, msp_id: MspId | None, tenant_id: TenantId | None) -> bool:
    """Whether the platform, the MSP or the tenant does. In any scope."""
    return repository.wants_two_factors(session, msp_id, tenant_id)
