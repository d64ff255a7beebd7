from uuid import UUID

from sqlalchemy import delete, func, select, update
from sqlalchemy.orm import Session

from nac.core.access.owners import Owner
from nac.models import Membership, SignIn, SignInRule, SignOn, SignOnLink


def get(session: Session, owner: Owner, *, lock: bool = False) -> SignOn | None:
    query = select(SignOn).where(owner.owns(SignOn)).execution_options(populate_existing=True)
    return session.scalar(query.with_for_update() if lock else query)


def lock_owner(session: Session, owner: Owner) -> None:
    """Lock the owner's single sign-on until the transaction ends. The single sign-on need not exist."""
    session.execute(select(func.pg_advisory_xact_lock(func.hashtextextended(f"sign-on {owner}", 0))))


def gives_role(session: Session, owner: Owner, role: str) -> bool:
    """Whether the single sign-on assigns this role to new members."""
    row = get(session, owner, lock=True)
    return row is not None and any(join.get("role") == role for join in row.settings.get("joins", ()))


def is_sign_on_only(session: Session, owner: Owner) -> bool:
    query = select(SignInRule.sign_on_only).where(owner.owns(SignInRule))
    return bool(session.scalar(query))


def get_by_id(session: Session, sign_on_id: UUID) -> SignOn | None:
    return session.get(SignOn, sign_on_id, populate_existing=True)


def delete_links(session: Session, sign_on_id: UUID) -> None:
    session.execute(delete(SignOnLink).where(SignOnLink.sign_on_id == sign_on_id))


def end_sign_ins(session: Session, sign_on_id: UUID) -> None:
    statement = update(SignIn).where(SignIn.sign_on_id == sign_on_id, SignIn.ended_at.is_(None))
    session.execute(statement.values(ended_at=func.now()), execution_options={"synchronize_session": False})


def get_link(session: Session, sign_on_id: UUID, subject: str) -> SignOnLink | None:
    return session.get(SignOnLink, (sign_on_id, subject), populate_existing=True)


def get_subject(session: Session, sign_on_id: UUID, person_id: UUID) -> str | None:
    query = select(SignOnLink.subject)
    return session.scalar(query.where(SignOnLink.sign_on_id == sign_on_id, SignOnLink.person_id == person_id))


def is_member(session: Session, owner: Owner, person_id: UUID) -> bool:
    query = select(Membership.id).where(owner.owns(Membership), Membership.person_id == person_id)
    return session.scalar(query) is not None
