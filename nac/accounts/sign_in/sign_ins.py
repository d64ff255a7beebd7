"""Sign-ins of people. A sign-in ends after 12 hours without requests, after 7 days, or when the person ends it."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from uuid import UUID

from sqlalchemy import ColumnElement
from sqlalchemy.orm import Session

from nac.accounts.members import service as members
from nac.accounts.people import repository as people
from nac.accounts.sign_in import repository
from nac.accounts.sign_in.failures import printable_user_agent
from nac.accounts.sign_in.second_factors import Factor, has_two_factors
from nac.accounts.sign_in.secret_texts import SignInText
from nac.accounts.sign_in_errors import (
    AccountOfAnother,
    ConfirmationNeeded,
    SecondFactorNeeded,
    SignInNotFound,
    SignInOver,
)
from nac.core.access.grants import Owner, Principal, TokenMaker, filter_grants_of_owner, require_covers
from nac.core.audit import service as audit
from nac.kit.clock import utc_now
from nac.kit.db import become_person
from nac.kit.db.sort_orders import PageSpan
from nac.kit.permissions import Permission
from nac.models import Person, SignIn

MAX_IDLE = timedelta(hours=12)
MAX_LIFETIME = timedelta(days=7)
# Time in which people can change their account after they confirmed their identity.
CONFIRMATION_LIFETIME = timedelta(minutes=10)
_SEEN_STEP = timedelta(minutes=1)
# If a person has more sign-ins in an hour, or more memberships than this, only the audit log of the platform gets an
# entry.
MAX_AUDITED_PER_HOUR = 20
MAX_AUDITED_OWNERS = 50
_PLATFORM_OWNER = Owner()


@dataclass(frozen=True, slots=True)
class SignOnOrigin:
    """Single sign-on by which a person signed in, and the MSP or tenant that configured this single sign-on."""

    sign_on_id: UUID
    owner: Owner


@dataclass(frozen=True, slots=True)
class SignedInPerson:
    """Current sign-in of a person."""

    sign_in_id: UUID
    person_id: UUID
    email: str
    name: str
    factors: frozenset[str]
    confirmed_at: datetime
    expires_at: datetime
    via: SignOnOrigin | None
    csrf_token: str = field(repr=False)

    @property
    def has_two_factors(self) -> bool:
        return has_two_factors(self.factors)

    @property
    def actor(self) -> str:
        return name_actor(self.email, self.via)

    def require_own(self, *, has_second: bool) -> None:
        """Check that this sign-in may change the account. Raises AccountOfAnother and SecondFactorNeeded.

        A sign-in by single sign-on may not change the account, because a provider could claim that any person signed
        in. If the account has a second factor (`has_second`), the sign-in must have used a second factor.
        """
        if self.via is not None:
            raise AccountOfAnother(remedy="Sign in with a password or passkey of your own account.")
        if has_second and not self.has_two_factors:
            raise SecondFactorNeeded(remedy="Sign in again, with your second factor.")

    def require_confirmed(self, *, now: datetime) -> None:
        """Raise ConfirmationNeeded if the person has not confirmed their identity within CONFIRMATION_LIFETIME."""
        if self.confirmed_at <= now - CONFIRMATION_LIFETIME:
            raise ConfirmationNeeded(remedy="Confirm with your password or passkey.")


def name_actor(email: str, via: SignOnOrigin | None) -> str:
    """Name of the person in the audit log. After single sign-on, the name includes the provider's MSP or tenant."""
    if via is None:
        return f"person:{email}"
    whose = f"MSP {via.owner.msp_id}" if via.owner.msp_id is not None else f"tenant {via.owner.tenant_id}"
    return f"person:{email} (by the provider of {whose})"


def create_sign_in(
    session: Session,
    *,
    person: Person,
    factors: Collection[str],
    address: str | None,
    user_agent: str,
    now: datetime,
    via: SignOnOrigin | None = None,
) -> tuple[SignIn, SignInText]:
    """Start a sign-in. Returns the row and its new secret. Needs PersonScope."""
    text = SignInText.make()
    owner = via.owner if via is not None else Owner()
    row = SignIn(
        public_id=text.public_id,
        secret_sha256=text.digest(),
        person_id=person.id,
        factors=sorted(factors),
        from_address=address,
        user_agent=printable_user_agent(user_agent),
        expires_at=now + MAX_LIFETIME,
        last_seen_at=now,
        confirmed_at=now,
        sign_on_id=via.sign_on_id if via is not None else None,
        via_msp_id=owner.msp_id,
        via_tenant_id=owner.tenant_id,
    )
    session.add(row)
    session.flush()
    after = {"factors": row.factors, "sign_in": text.public_id}
    entry = {"actor": name_actor(person.email, via), "action": "sign-in.begin", "target": person.email, "after": after}
    owners = _audited_owners(session, person, via, now)
    audit.append_many(session, [{**entry, **each.columns()} for each in owners])
    return row, text


def _audited_owners(session: Session, person: Person, via: SignOnOrigin | None, now: datetime) -> Sequence[Owner]:
    """Return the owners (MSPs, tenants or the platform) whose audit logs get an entry for this sign-in.

    * After single sign-on: the MSP or tenant of the provider.
    * After a sign-in without single sign-on: all MSPs and tenants of which the person is a member.
    * After many sign-ins in an hour: only the platform, so that the other logs do not grow too fast.
    """
    if via is not None:
        return [_PLATFORM_OWNER, via.owner]
    if repository.count_recent(session, person.id, now - timedelta(hours=1)) > MAX_AUDITED_PER_HOUR:
        return [_PLATFORM_OWNER]
    owners = repository.list_member_owners(session, person.id, most=MAX_AUDITED_OWNERS)
    return [_PLATFORM_OWNER, *(each for each in owners if each != _PLATFORM_OWNER)]


def end_previous(session: Session, *, person: Person, text: SignInText) -> None:
    """End the sign-in with this cookie value if the sign-in belongs to the person. Needs PersonScope.

    Call this function when the person signs in again with the same browser.
    """
    row = repository.get_by_public_id(session, text.public_id)
    if row is not None and row.person_id == person.id and text.is_of(row.secret_sha256):
        repository.end_sign_ins(session, SignIn.id == row.id, now=utc_now())


def authenticate(session: Session, *, text: SignInText, now: datetime) -> tuple[SignedInPerson, Principal]:
    """Check a sign-in, and change the database scope to PersonScope of the person. Raises SignInOver.

    Needs CredentialScope with the sign-in's public id.
    """
    row = repository.get_by_public_id(session, text.public_id)
    if row is None or not text.is_of(row.secret_sha256) or not _is_valid(row, now):
        raise SignInOver(remedy="Sign in again.")
    if row.last_seen_at <= now - _SEEN_STEP:
        row.last_seen_at = now
        session.flush()
    become_person(session, row.person_id)
    person = people.get(session, row.person_id)
    if person is None or person.status != "active":
        raise SignInOver(remedy="Sign in again.")
    owner = Owner(row.via_msp_id, row.via_tenant_id)
    via = SignOnOrigin(row.sign_on_id, owner) if row.sign_on_id is not None else None
    grants = members.list_grants(session, person_id=person.id)
    signed_in = SignedInPerson(
        row.id,
        person.id,
        person.email,
        person.name,
        frozenset(row.factors),
        row.confirmed_at,
        min(row.expires_at, row.last_seen_at + MAX_IDLE),
        via,
        text.csrf_token(),
    )
    maker = TokenMaker(person.id, signed_in.actor, owner)
    good = [
        each
        for each in grants
        if each.required_sign_in is None or (each.required_sign_in == "two-factors" and signed_in.has_two_factors)
    ]
    given = tuple(good) if via is None else filter_grants_of_owner(grants, owner)
    withheld = tuple(each for each in grants if via is None and each not in good)
    return signed_in, Principal(signed_in.actor, given, withheld, maker)


def _is_valid(row: SignIn, now: datetime) -> bool:
    return row.ended_at is None and now < row.expires_at and now < row.last_seen_at + MAX_IDLE


def valid_clause() -> ColumnElement[bool]:
    """SQL condition that selects currently valid sign-ins."""
    now = utc_now()
    return repository.valid_clause(now, seen_since=now - MAX_IDLE)


def confirm_sign_in(session: Session, *, signed_in: SignedInPerson, factor: Factor, now: datetime) -> SignIn:
    """Store that the person confirmed their identity now. Needs PersonScope. Raises SignInOver."""
    row = session.get(SignIn, signed_in.sign_in_id, with_for_update=True, populate_existing=True)
    if row is None or not _is_valid(row, now):
        raise SignInOver(remedy="Sign in again.")
    row.confirmed_at = now
    row.factors = sorted({*row.factors, factor})
    session.flush()
    return row


def add_factor(session: Session, *, signed_in: SignedInPerson, person: Person, factor: Factor) -> None:
    """Add a factor, which the person has just used, to this sign-in. Ends all other sign-ins of the person.

    Does nothing if this sign-in already has two factors. Needs PersonScope.
    """
    if signed_in.has_two_factors:
        return
    confirm_sign_in(session, signed_in=signed_in, factor=factor, now=utc_now())
    end_all(session, actor=signed_in.actor, person=person, but_for=signed_in.sign_in_id)


def list_own(session: Session, *, signed_in: SignedInPerson, span: PageSpan) -> Sequence[SignIn]:
    """List the person's own valid sign-ins. Needs PersonScope.

    If the person signed in by single sign-on, the list has only sign-ins by this provider.
    """
    via = signed_in.via.sign_on_id if signed_in.via is not None else None
    return repository.list_for_person(session, signed_in.person_id, valid_clause(), sign_on_id=via, span=span)


def end_own(session: Session, *, signed_in: SignedInPerson, sign_in_id: UUID) -> None:
    """End a sign-in that `list_own` lists. Needs PersonScope. Raises SignInNotFound."""
    row = session.get(SignIn, sign_in_id)
    is_own = row is not None and row.person_id == signed_in.person_id and _is_valid(row, utc_now())
    if row is None or not is_own or (signed_in.via is not None and row.sign_on_id != signed_in.via.sign_on_id):
        raise SignInNotFound("This sign-in does not exist.", place="sign_in")
    _end_sign_in(session, signed_in.actor, signed_in.email, row)


def _end_sign_in(session: Session, actor: str, target: str, row: SignIn, owner: Owner = _PLATFORM_OWNER) -> None:
    if repository.end_sign_ins(session, SignIn.id == row.id, now=utc_now()):
        before = {"sign_in": row.public_id}
        audit.append(session, actor=actor, action="sign-in.end", target=target, before=before, **owner.columns())


def list_via(
    session: Session, *, owner: Owner, span: PageSpan, text: str = ""
) -> Sequence[tuple[SignIn, Person | None]]:
    """List sign-ins by the single sign-on of the owner (MSP or tenant).

    `text` is a part of the e-mail address. Needs the database scope of the owner.
    """
    return repository.list_via(session, owner, valid_clause(), span=span, text=text)


def end_via(session: Session, *, actor: str, held: Collection[Permission], owner: Owner, sign_in_id: UUID) -> None:
    """End a sign-in by the single sign-on of the owner (MSP or tenant). Needs the database scope of the owner.

    Raises SignInNotFound. Raises PermissionMissing if the person is a member with a permission that is not in `held`.
    """
    found = repository.get_via(session, owner, valid_clause(), sign_in_id)
    if found is None:
        raise SignInNotFound("This sign-in does not exist.", place="sign_in")
    row, person = found
    member = None if person is None else members.get_by_email(session, owner=owner, email=person.email)
    if member is not None:
        require_covers(held, member.permissions, what="The member")
    target = person.email if person is not None else str(row.person_id)
    _end_sign_in(session, actor, target, row, owner)


def end_all(session: Session, *, actor: str, person: Person, but_for: UUID | None = None) -> int:
    """End all sign-ins of the person, except the sign-in with id `but_for`. Needs PersonScope or PlatformScope.

    Returns the number of ended sign-ins.
    """
    conditions = [SignIn.person_id == person.id, *([SignIn.id != but_for] if but_for is not None else [])]
    ended = repository.end_sign_ins(session, *conditions, now=utc_now())
    if ended:
        audit.append(session, actor=actor, action="sign-in.end-all", target=person.email, before={"sign_ins": ended})
    return ended


def reset_factors(session: Session, *, actor: str, person: Person) -> None:
    """Delete all second factors and end all sign-ins. The password stays. Needs PersonScope."""
    repository.delete_factors(session, person.id)
    audit.append(session, actor=actor, action="person.reset-factors", target=person.email)
    end_all(session, actor=actor, person=person)
