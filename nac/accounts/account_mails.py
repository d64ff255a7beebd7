"""Account mails: password links, and invitations of new members by a tenant, an MSP or the platform (the owner).

An API request queues a mail without looking up the person. So neither the response nor its duration reveals whether an
account exists. Later, the worker looks up the person and writes the mail, with one transaction for each mail. The
worker needs database role admit_worker and PlatformScope.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, cast
from uuid import UUID

from sqlalchemy import Boolean, Engine, Table, Text, bindparam, delete, func, insert, select, text
from sqlalchemy.dialects.postgresql import INET
from sqlalchemy.orm import Session

from nac.accounts.sign_in import links
from nac.accounts.sign_in.links import CreatedLink
from nac.accounts.sign_ons import service
from nac.core.access.grants import Owner
from nac.core.audit import service as audit
from nac.core.audit.service import RequestOrigin
from nac.core.mail import service as mail
from nac.kit.clock import utc_now
from nac.kit.db import PlatformScope, session_scope
from nac.kit.errors import DatabaseUnavailable, Unavailable
from nac.kit.sealing import Seal
from nac.kit.validation import is_mailable_name, require_email
from nac.models import AccountMail, AuditEntry, Mail, Msp, PasswordLink, Person, SignOn, Tenant

_REQUEST_LINK = text("SELECT ask_for_link(:email, :known, :address, :request)").bindparams(
    bindparam("email", type_=Text()),
    bindparam("known", type_=Boolean()),
    bindparam("address", type_=INET()),
    bindparam("request", type_=Text()),
)
# `inline` omits RETURNING, because the callers' database role cannot read this table.
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
    """Count the owner's audit log entries since `since` about added members. The result is at most `most`."""
    query = select(AuditEntry.id).where(AuditEntry.action == "member.add", AuditEntry.at > since)
    query = query.where(owner.owns(AuditEntry)).limit(most)
    return session.scalars(select(func.count()).select_from(query.subquery())).one()


def count_invitations(session: Session, email: str, since: datetime) -> int:
    """Count the invitation mails to this address from all tenants, all MSPs and the platform since `since`."""
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
    return service.is_member(session, owner, person_id)


_log = logging.getLogger(__name__)
BATCH_SIZE = 200
# Maximum password links that all requests together send to one person.
MAX_LINKS_PER_HOUR = 3
MAX_LINKS_PER_DAY = 6
# Limit of password links for requests from the person's known browsers. Requests of strangers do not count here.
MAX_KNOWN_BROWSER_LINKS_PER_DAY = 6
# Maximum invitation mails of one tenant, one MSP or the platform. Members added beyond this limit get no mail.
MAX_INVITATIONS_PER_DAY = 100
# Maximum invitation mails to one address within a day. This maximum is lower than the limit of all mails to one address
# (`nac.core.mail.service`), so that repeated invitations cannot block the person's password links.
MAX_INVITATIONS_PER_ADDRESS = 5
_HOUR, _DAY = timedelta(hours=1), timedelta(days=1)
_SIGN_IN_ACTOR, _KNOWN_BROWSER_ACTOR = "system:sign-in", "system:sign-in (known browser)"


@dataclass(frozen=True, slots=True)
class AccountMailer:
    """Composer of account mails. Needs database role admit_app or admit_worker, in PlatformScope."""

    portal_url: str
    seal: Seal

    def send_link(self, session: Session, made: CreatedLink, *, address: str | None = None) -> None:
        """Queue the mail with a password link. `address` is the IP address of the request."""
        key = f"password-forgotten:{made.public_id}"
        self.send(session, key, "password-forgotten", made.email, {**self.values_of(made), "address": address or ""})

    def send(self, session: Session, key: str, template: str, recipient: str, values: Mapping[str, str]) -> None:
        given = {"portal_url": self.portal_url, **values}
        mail.queue_mail(session, key=key, template=template, recipient=recipient, values=given, seal=self.seal)

    def values_of(self, made: CreatedLink) -> dict[str, str]:
        return {"link": self.link_url(made), "until": f"{made.expires_at:%Y-%m-%d %H:%M}"}

    def link_url(self, made: CreatedLink) -> str:
        """URL of the page that sets the password."""
        return f"{self.portal_url}/new-password/{made.text}"


@dataclass(frozen=True, slots=True)
class AccountMailWriter:
    mailer: AccountMailer

    def write_waiting(self, *, engine: Engine | None = None) -> int:
        """Write the mails that API requests queued. Returns the number of these requests."""
        with session_scope(PlatformScope(), engine=engine) as session:
            waiting = list_waiting(session, most=BATCH_SIZE)
        for mail_id in waiting:
            try:
                with session_scope(PlatformScope(), engine=engine) as session:
                    self._write(session, mail_id)
            except DatabaseUnavailable:
                raise
            except Exception:  # house-rule: an error in one mail does not stop the others
                _log.exception("cannot write account mail %s", mail_id)
                with session_scope(PlatformScope(), engine=engine) as session:
                    delete_mail(session, mail_id)
        return len(waiting)

    def _write(self, session: Session, mail_id: int) -> None:
        row = lock_mail(session, mail_id)
        if row is None:
            return
        delete_mail(session, mail_id)
        person = get_person_by_email(session, row.email)
        if person is None or person.status != "active":
            return
        if row.request_id is not None:
            audit.set_origin(session, RequestOrigin(row.address, row.request_id))
        if row.kind == "invitation":
            self._invite(session, row, person)
        else:
            self._send_link(session, row, person)

    def _send_link(self, session: Session, row: AccountMail, person: Person) -> None:
        """Mail a password link. A person without a password gets a mail without a link.

        Such a person signs in with an identity provider. A password would bypass the provider.
        """
        actor, now = _KNOWN_BROWSER_ACTOR if row.is_known else _SIGN_IN_ACTOR, utc_now()
        if not person.password_hash:
            key = f"password-none:{person.id}:{now:%Y-%m-%d}"
            self.mailer.send(session, key, "password-none", person.email, {})
        elif _may_send_link(session, person, actor, now):
            made = links.create_link(session, actor=actor, person=person, ends_earlier=False)
            self.mailer.send_link(session, made, address=row.address)

    def _invite(self, session: Session, row: AccountMail, person: Person) -> None:
        owner = Owner(row.msp_id, row.tenant_id)
        if not is_member(session, owner, person.id):
            return
        most = MAX_INVITATIONS_PER_DAY
        if count_new_members(session, owner, utc_now() - _DAY, most=most + 1) > most:
            return
        if count_invitations(session, person.email, utc_now() - _DAY) >= MAX_INVITATIONS_PER_ADDRESS:
            return
        place = get_inviting_owner(session, owner)
        values = {"place": place.name, "by": _inviter_name(row.actor)}
        if place.sign_on_id is not None:
            template = "invited-sign-on"
            values["link"] = f"{self.mailer.portal_url}/v1/sign-on/{place.sign_on_id}/begin"
        elif person.password_hash:
            template = "invited-known"
            values["link"] = self.mailer.portal_url
        else:
            template = "invited"
            made = links.create_link(session, actor=row.actor, person=person, ends_earlier=False)
            values |= self.mailer.values_of(made)
        self.mailer.send(session, f"invitation:{row.id}", template, person.email, values)


def _inviter_name(actor: str | None) -> str:
    """Name of the inviter for the mail. Names of tokens do not appear, because their creators could choose any text."""
    kind, _, name = (actor or "").partition(":")
    return f"{kind}:{name}" if kind == "person" else "A program"


def _may_send_link(session: Session, person: Person, actor: str, now: datetime) -> bool:
    def count(since: datetime) -> int:
        return count_links(session, person.id, actor, since)

    if actor == _KNOWN_BROWSER_ACTOR:
        return count(now - _DAY) < MAX_KNOWN_BROWSER_LINKS_PER_DAY
    return count(now - _HOUR) < MAX_LINKS_PER_HOUR and count(now - _DAY) < MAX_LINKS_PER_DAY


class TooManyMailsWait(Unavailable):
    """Too many mails are queued."""

    retry_after_seconds = 60


def request_password_link(session: Session, *, email: str, is_known: bool) -> None:
    """Request a password link. `is_known` is true if the request comes from a known browser of the person.

    Works in any database scope. Raises TooManyMailsWait.
    """
    if not request_link(session, email.strip().lower(), is_known, audit.get_origin(session)):
        raise TooManyMailsWait(remedy="Try again in a minute.")


def queue_invitation(session: Session, *, actor: str, owner: Owner, email: str) -> None:
    """Request an invitation mail for a new member. Needs the database scope of the owner."""
    create_invitation(session, actor, owner, require_email(email), audit.get_origin(session))
