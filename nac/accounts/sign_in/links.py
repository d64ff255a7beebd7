"""Password links, with which new members and people who forgot their password set a password.

Anyone with the link can set the password. Therefore show a link only to the person to whom the account belongs.
"""

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from sqlalchemy.orm import Session

from nac.accounts.people import service as people
from nac.accounts.sign_in import repository, sign_ins
from nac.accounts.sign_in.secret_texts import LinkText
from nac.accounts.sign_in_errors import LinkRefused
from nac.core.audit import service as audit
from nac.kit.clock import utc_now
from nac.kit.db import become_person
from nac.models import PasswordLink, Person

RESET_LIFETIME = timedelta(hours=1)
INVITATION_LIFETIME = timedelta(days=7)


@dataclass(frozen=True, slots=True)
class CreatedLink:
    public_id: str
    email: str
    expires_at: datetime
    text: str = field(repr=False)


def create_link(session: Session, *, actor: str, person: Person, ends_earlier: bool = True) -> CreatedLink:
    """Create a link. The link is valid longer if the person has no password.

    `ends_earlier` invalidates the person's earlier links. Set it to False if the request came from someone who has not
    signed in. Otherwise anyone could invalidate a link that the person has just received. Needs PersonScope or database
    role admit_worker.
    """
    now = utc_now()
    if ends_earlier:
        repository.spend_links(session, person.id, now)
    text = LinkText.make()
    good_for = RESET_LIFETIME if person.password_hash else INVITATION_LIFETIME
    row = PasswordLink(
        public_id=text.public_id,
        secret_sha256=text.digest(),
        person_id=person.id,
        created_by=actor,
        expires_at=now + good_for,
    )
    session.add(row)
    session.flush()
    after = {"expires_at": row.expires_at.isoformat()}
    audit.append(session, actor=actor, action="password-link.make", target=person.email, after=after)
    return CreatedLink(row.public_id, person.email, row.expires_at, text.reveal())


def require_valid_link(session: Session, *, text: LinkText) -> PasswordLink:
    """Check a link without using it up. Needs CredentialScope with the link's public id. Raises LinkRefused."""
    found = repository.get_link(session, text.public_id)
    if found is None or not text.is_of(found.secret_sha256) or not _is_valid(found):
        raise LinkRefused(remedy="Request a new link.")
    return found


def _is_valid(row: PasswordLink) -> bool:
    return row.used_at is None and row.expires_at > utc_now()


def set_password(session: Session, *, text: LinkText, password: str) -> Person:
    """Set the password and end all sign-ins of the person. Needs CredentialScope with the link's public id.

    Raises LinkRefused.
    """
    found = require_valid_link(session, text=text)
    become_person(session, found.person_id)
    # Lock the link and read it again, because another request may have used the link meanwhile.
    row = repository.get_link(session, text.public_id, lock=True)
    if row is None or not _is_valid(row):
        raise LinkRefused(remedy="Request a new link.")
    person = people.require_person(session, person_id=row.person_id)
    if person.status != "active":
        raise LinkRefused(remedy="Request a new link.")
    actor = sign_ins.name_actor(person.email, None)
    people.set_password(session, actor=actor, person_id=person.id, password=password)
    repository.spend_links(session, person.id, utc_now())
    sign_ins.end_all(session, actor=actor, person=person)
    return person
