"""Mails to people about their accounts: a link for who has forgotten the password, and word for who is a new member.

Who asks looks nothing up: neither what is answered nor how long that takes says whether there is such a person. The
worker does (`nac.account_mails.writing`).
"""

from sqlalchemy.orm import Session

from nac.account_mails import repository
from nac.accounts.owners import Owner
from nac.audit import service as audit
from nac.errors import Unavailable
from nac.people.service import require_email


class TooManyMailsWait(Unavailable):
    """Very many mails wait to be written."""

    retry_after_seconds = 60


def ask_for_link(session: Session, *, email: str, is_known: bool) -> None:
    """Of somebody who has forgotten. `is_known` where the browser is one of the person's. In any scope."""
    if not repository.ask_for_link(session, email.strip().lower(), is_known, audit.origin_of(session)):
        raise TooManyMailsWait(remedy="Try again in a minute.")


def invite(session: Session, *, actor: str, owner: Owner, email: str) -> None:
    """A new member, by a mail that says how to come in. In the scope of the owner."""
    repository.add_invitation(session, actor, owner, require_email(email), audit.origin_of(session))
