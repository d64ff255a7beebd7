"""Requests for account mails: password links and invitations.

The API request does not look up the person. Neither the response nor its duration reveals whether an account exists.
The worker looks up the person later (`nac.accounts.account_mails.mail_writer`).
"""

from sqlalchemy.orm import Session

from nac.accounts.account_mails import repository
from nac.core.access.owners import Owner
from nac.core.audit import service as audit
from nac.kit.errors import Unavailable
from nac.kit.validation import require_email


class TooManyMailsWait(Unavailable):
    """Too many mails are queued."""

    retry_after_seconds = 60


def request_password_link(session: Session, *, email: str, is_known: bool) -> None:
    """Request a password link.

    `is_known`: the request comes from a known browser of the person. Works in any database scope.

    Raises TooManyMailsWait.
    """
    if not repository.request_link(session, email.strip().lower(), is_known, audit.get_origin(session)):
        raise TooManyMailsWait(remedy="Try again in a minute.")


def queue_invitation(session: Session, *, actor: str, owner: Owner, email: str) -> None:
    """Request an invitation mail for a new member. Use in the database scope of the owner."""
    repository.create_invitation(session, actor, owner, require_email(email), audit.get_origin(session))
