from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, cast
from uuid import UUID

from sqlalchemy import Boolean, Table, Text, bindparam, delete, func, insert, select, text
from sqlalchemy.dialects.postgresql import INET
from sqlalchemy.orm import Session

from nac.accounts.sign_ons import repository as sign_ons
from nac.core.access.owners import Owner
from nac.core.audit.service import RequestOrigin
from nac.kit.validation import is_mailable_name
from nac.models import AccountMail, AuditEntry, Mail, Msp, PasswordLink, Person, SignOn, Tenant

_REQUEST_LINK = text("SELECT ask_for_link(:email, :known, :address, :request)").bindparams(
    bindparam("email", type_=Text()),
    bindparam("known", type_=Boolean()),
    bindparam("address", type_=INET()),
    bindparam("request", type_=Text()),
)
# `inline` omits RETURNING, because callers may not read this table.
_INSERT_MAIL = insert(cast(Table, AccountMail.__table__)).inline()


INVITATION_TEMPLATES = ("invited", "invited-known", "invited-sign-on")


@dataclass(frozen=True, slots=True)
class InvitingOwner:
    """Name and single sign-on of a tenant, an MSP or the platform, for an invitation mail."""

    name: str
    # Id of the owner's single sign-on; None if the owner has no single sign-on.
    sign_on_id: UUID | None


def request_link(session: Session, email: str, is_known: bool, origin: RequestOrigin | None) -> bool:
    return bool(session.scalar(_REQUEST_LINK, {"email": email, "known": is_known, **_origin_columns(origin)}))


def create_invitation(session: Session, actor: str, owner: Owner, email: str, origin: RequestOrigin | None) -> None:
    asked = _origin_columns(origin)
    values = {"kind": "invitation", "email": email, "actor": actor, **owner.columns()}
    session.execute(_INSERT_MAIL, {**values, "address": asked["address"], "request_id": asked["request"]})


def _origin_columns(origin: RequestOrigin | None) -> dict[str, Any]:
    return {"address": origin and origin.address, "request": origin and origin.request_id}


def list_waiting(session: Session, *, most: int) -> Sequence[int]:
    return session.scalars(select(AccountMail.id).order_by(AccountMail.id).limit(most)).all()


def lock_mail(session: Session, mail_id: int) -> AccountMail | None:
    """Lock a queued mail. Returns None if another worker has locked or deleted the mail."""
    query = select(AccountMail).where(AccountMail.id == mail_id).with_for_update(skip_locked=True)
    return session.scalar(query)


def delete_mail(session: Session, mail_id: int) -> None:
    session.execute(delete(AccountMail).where(AccountMail.id == mail_id))


def get_person_by_email(session: Session, email: str) -> Person | None:
    query = select(Person).where(Person.email == email)
    return session.scalar(query.execution_options(populate_existing=True))


def count_links(session: Session, person_id: UUID, actor: str, since: datetime) -> int:
    query = select(func.count()).select_from(PasswordLink)
    query = query.where(PasswordLink.person_id == person_id, PasswordLink.created_by == actor)
    return session.scalars(query.where(PasswordLink.created_at > since)).one()


def count_new_members(session: Session, owner: Owner, since: datetime, *, most: int) -> int:
    """Number of additions of members since `since`, from the audit log, up to `most`.

    A member added twice counts twice.
    """
    query = select(AuditEntry.id).where(AuditEntry.action == "member.add", AuditEntry.at > since)
    query = query.where(owner.owns(AuditEntry)).limit(most)
    return session.scalars(select(func.count()).select_from(query.subquery())).one()


def count_invitations(session: Session, email: str, since: datetime) -> int:
    """Number of invitations to this address from all owners."""
    query = select(func.count()).select_from(Mail).where(Mail.recipient == email, Mail.created_at > since)
    return session.scalars(query.where(Mail.template.in_(INVITATION_TEMPLATES))).one()


def get_inviting_owner(session: Session, owner: Owner) -> InvitingOwner:
    if owner.tenant_id is not None:
        named = select(Tenant.name, Tenant.slug).where(Tenant.id == owner.tenant_id)
    elif owner.msp_id is not None:
        named = select(Msp.name, Msp.slug).where(Msp.id == owner.msp_id)
    else:
        return InvitingOwner("the platform", None)
    name, slug = session.execute(named).one()
    return InvitingOwner(
        name if is_mailable_name(name) else slug, session.scalar(select(SignOn.id).where(owner.owns(SignOn)))
    )


def is_member(session: Session, owner: Owner, person_id: UUID) -> bool:
    return sign_ons.is_member(session, owner, person_id)
