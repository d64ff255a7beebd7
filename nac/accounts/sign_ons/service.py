"""Single sign-on: members of an MSP or tenant (the owner) sign in with an identity provider that the owner configured.

Functions need the database scope of the owner, unless their docstring names another scope.

A provider could claim that any person signed in. A sign-in by a provider is therefore valid only for the person's
membership in the owner. The sign-in cannot change the account or use other memberships.
"""

import hashlib
from collections.abc import Collection, Mapping
from typing import Any
from uuid import UUID

import msgspec
from sqlalchemy import delete, func, select, update
from sqlalchemy.orm import Session

from nac.accounts.members import service as members
from nac.accounts.people import repository as people
from nac.accounts.sign_ons.code_flow import ProviderIdentity
from nac.accounts.sign_ons.errors import AnotherSubject, EmailMissing, NoMemberHere, OwnerSuspended
from nac.accounts.sign_ons.settings import (
    SECRET_BOUND_SETTINGS,
    SUBJECT_BOUND_SETTINGS,
    JoinRule,
    SignOnSettings,
    read_settings,
)
from nac.core.access.grants import Owner, require_may_grant
from nac.core.audit import service as audit
from nac.kit.errors import Conflict, InvalidInput, NotFound
from nac.kit.permissions import Permission, permissions_at
from nac.kit.sealing import Seal, Unseal
from nac.kit.validation import require_email
from nac.models import Membership, SignIn, SignInRule, SignOn, SignOnLink
from nac.tenancy import msps


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


_SECRET_CHARACTERS = 1_000


class SignOnNotFound(NotFound):
    """Single sign-on is not set up."""


def get_owner(row: SignOn) -> Owner:
    return Owner(row.msp_id, row.tenant_id)


def parse_settings(row: SignOn) -> SignOnSettings:
    return msgspec.convert(row.settings, SignOnSettings)


def compute_settings_tag(row: SignOn) -> bytes:
    """Digest of the settings and the client secret."""
    settings = msgspec.json.encode(row.settings, order="deterministic")
    return hashlib.sha256(settings + row.secret_sealed).digest()


def open_secret(row: SignOn, *, unseal: Unseal) -> str:
    return unseal(row.secret_sealed, _context(row.id)).decode()


def find_sign_on(session: Session, *, owner: Owner, lock: bool = False) -> SignOn | None:
    """Single sign-on of the owner, or None.

    With `lock`, no other transaction can create, change or delete the single sign-on until this transaction ends.
    """
    if lock:
        lock_owner(session, owner)
    return get(session, owner, lock=lock)


def require_sign_on(session: Session, *, owner: Owner, lock: bool = False) -> SignOn:
    row = find_sign_on(session, owner=owner, lock=lock)
    if row is None:
        raise SignOnNotFound(remedy="Set up single sign-on first.")
    return row


def require_by_id(session: Session, *, sign_on_id: UUID) -> SignOn:
    """Return the single sign-on with this id. Needs CredentialScope with this id. Raises SignOnNotFound."""
    row = get_by_id(session, sign_on_id)
    if row is None:
        raise SignOnNotFound("This single sign-on does not exist.", place="sign_on")
    return row


def set_up_sign_on(
    session: Session,
    *,
    actor: str,
    held: Collection[Permission],
    owner: Owner,
    document: Mapping[str, Any],
    secret: str | None,
    seal: Seal,
) -> SignOn:
    """Set up the single sign-on. `secret` is the client secret; None keeps the current secret.

    The provider could claim that any member signed in. The caller therefore needs all permissions of the owner's level
    (tenant or MSP). Raises PermissionMissing, InvalidInput and Conflict.
    """
    require_may_grant(held, permissions_at(owner.level))
    settings = read_settings(document)
    lock_owner(session, owner)
    for join in settings.joins:
        members.require_role(session, owner=owner, role=join.role, tenants=join.tenants)
    row = get(session, owner, lock=True)
    before = parse_settings(row) if row is not None else None
    if secret is None and (before is None or _differ(before, settings, SECRET_BOUND_SETTINGS)):
        raise InvalidInput(
            "The client secret is required for a new provider.", place="client_secret", remedy="Send the client secret."
        )
    if secret is not None and len(secret) > _SECRET_CHARACTERS:
        raise InvalidInput("The client secret is too long.", place="client_secret")
    stored = msgspec.to_builtins(settings)
    if row is None:
        row = SignOn(settings=stored, secret_sealed=b"", **owner.columns())
        session.add(row)
        session.flush()
    row.settings = stored
    if secret is not None:
        row.secret_sealed = seal(secret.encode(), _context(row.id))
    if before is not None and _differ(before, settings, SUBJECT_BOUND_SETTINGS):
        _require_not_only_way(session, owner)
        delete_links(session, row.id)
        end_sign_ins(session, row.id)
    session.flush()
    was = msgspec.to_builtins(before) if before is not None else None
    _audit(session, actor, owner, "set-up", settings, before=was, after=stored)
    return row


def delete_sign_on(session: Session, *, actor: str, owner: Owner) -> None:
    """Remove the single sign-on and end all sign-ins by it. Raises SignOnNotFound and Conflict."""
    lock_owner(session, owner)
    row = require_sign_on(session, owner=owner)
    _require_not_only_way(session, owner)
    settings = parse_settings(row)
    session.delete(row)
    session.flush()
    _audit(session, actor, owner, "remove", settings, before=msgspec.to_builtins(settings))


def _require_not_only_way(session: Session, owner: Owner) -> None:
    """Raise Conflict if members can sign in only by single sign-on."""
    if is_sign_on_only(session, owner):
        raise Conflict(
            "Members can sign in only with this single sign-on.",
            remedy="First set `sign_on_only` of the sign-in rules to false.",
        )


def resolve_person(session: Session, *, row: SignOn, identity: ProviderIdentity) -> UUID:
    """Return the id of the person whom the provider signed in. Raises ProviderRefused.

    If the person is not a member yet and a join rule matches, the person becomes a member.
    """
    owner, settings = get_owner(row), parse_settings(row)
    if owner.msp_id is not None and msps.require_msp(session, msp_id=owner.msp_id).status != "active":
        raise OwnerSuspended(remedy="Contact the platform's operator.")
    link = get_link(session, row.id, identity.subject)
    if link is not None:
        if not is_member(session, owner, link.person_id):
            raise NoMemberHere(remedy=_ASK_REMEDY)
        return link.person_id
    try:
        email = require_email(identity.email)
    except InvalidInput as exc:
        raise EmailMissing("The provider sent an invalid e-mail address.") from exc
    person_id = people.get_id_by_email(session, email)
    if person_id is None or not is_member(session, owner, person_id):
        join = next((join for join in settings.joins if _join_matches(join, email, identity.groups)), None)
        if join is None:
            raise NoMemberHere(remedy=_ASK_REMEDY)
        person_id = members.create_member(
            session,
            actor=f"sign-on:{settings.issuer}",
            held=permissions_at(owner.level),
            owner=owner,
            email=email,
            role=join.role,
            tenants=join.tenants,
        ).person.id
    if get_subject(session, row.id, person_id) is not None:
        raise AnotherSubject(remedy="Ask an administrator to set up the single sign-on again.")
    session.add(SignOnLink(sign_on_id=row.id, subject=identity.subject, person_id=person_id))
    session.flush()
    return person_id


_ASK_REMEDY = "Ask an administrator to add your e-mail address."


def _join_matches(join: JoinRule, email: str, groups: Collection[str]) -> bool:
    return (not join.domain or email.rpartition("@")[2] == join.domain) and (not join.group or join.group in groups)


def _differ(one: SignOnSettings, other: SignOnSettings, names: Collection[str]) -> bool:
    return any(getattr(one, name) != getattr(other, name) for name in names)


def _context(sign_on_id: UUID) -> str:
    return f"sign-on:{sign_on_id}"


def _audit(
    session: Session,
    actor: str,
    owner: Owner,
    verb: str,
    settings: SignOnSettings,
    *,
    before: Mapping[str, Any] | None = None,
    after: Mapping[str, Any] | None = None,
) -> None:
    action, where = f"sign-on.{verb}", owner.columns()
    audit.append(session, actor=actor, action=action, target=settings.issuer, before=before, after=after, **where)
