"""What a place asks of those who come in: two factors, where it says so. In the scope of the owner."""

from sqlalchemy import select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from nac.accounts.owners import Owner
from nac.audit import service as audit
from nac.ids import MspId, TenantId
from nac.models import SignInRule
from nac.sign_in import repository
from nac.sign_in.errors import SecondFactorNeeded
from nac.sign_in.sessions import SignedIn


def get(session: Session, *, owner: Owner) -> SignInRule:
    """As it is, or would be where nobody has said anything."""
    row = session.scalar(select(SignInRule).where(owner.owns(SignInRule)).execution_options(populate_existing=True))
    return row if row is not None else SignInRule(two_factors=False, **owner.columns())


def _ensure(session: Session, owner: Owner) -> SignInRule:
    """Locked: who says something at the same time waits."""
    session.execute(insert(SignInRule).values(**owner.columns()).on_conflict_do_nothing())
    query = select(SignInRule).where(owner.owns(SignInRule)).with_for_update()
    return session.scalars(query.execution_options(populate_existing=True)).one()


def change(session: Session, *, actor: str, owner: Owner, two_factors: bool, by: SignedIn | None) -> SignInRule:
    """`by` is the person who asks, None for a program. Raises SecondFactorNeeded where that one would be shut out."""
    if two_factors and by is not None and not by.has_two:
        raise SecondFactorNeeded("You would be shut out yourself.", remedy="Sign in with two factors first.")
    row = _ensure(session, owner)
    before = row.two_factors
    row.two_factors = two_factors
    session.flush()
    if before != two_factors:
        was, now = {"two_factors": before}, {"two_factors": two_factors}
        audit.append(
            session,
            actor=actor,
            action="sign-in-rules.change",
            target="sign-in",
            before=was,
            after=now,
            **owner.columns(),
        )
    return row


def wants_two_factors(session: Session, *, msp_id: MspId | None, tenant_id: TenantId | None) -> bool:
    """Whether the platform, the MSP or the tenant does. In any scope."""
    return repository.wants_two_factors(session, msp_id, tenant_id)
