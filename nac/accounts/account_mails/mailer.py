"""Queues mails about accounts."""

from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy.orm import Session

from nac.accounts.sign_in.links import CreatedLink
from nac.core.mail import service as mail
from nac.kit.sealing import Seal


@dataclass(frozen=True, slots=True)
class AccountMailer:
    """Use as admit_app or admit_worker, in PlatformScope."""

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
