"""SMTP client (RFC 5321) with implicit TLS, STARTTLS or no TLS."""

import smtplib
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.headerregistry import Address
from email.message import EmailMessage
from email.utils import format_datetime, parseaddr
from pathlib import Path
from typing import Literal, Self
from uuid import UUID

from nac.core.mail.rendering import RenderedMail, to_one_line
from nac.kit.clock import utc_now
from nac.kit.errors import AdmitError, Unavailable
from nac.kit.settings import Settings

TlsMode = Literal["none", "starttls", "tls"]
_TIMEOUT_SECONDS = 20


class MailServerAway(Unavailable):
    """The mail server is unreachable."""


class MailRefused(AdmitError):
    """The mail server permanently rejects this mail."""


@dataclass(frozen=True, slots=True)
class MailServer:
    host: str
    port: int
    tls: TlsMode
    # Sender, such as "Admit <admit@example.com>".
    sender: str
    user: str = ""
    password: str = field(default="", repr=False)
    # CA certificates in PEM; None uses the certificates of the system.
    trusted: str | None = None

    @classmethod
    def from_settings(cls, settings: Settings) -> Self:
        """Return the mail server in the settings. Raises OSError if the password file cannot be read."""
        return cls(
            host=settings.mail_host,
            port=settings.mail_port,
            tls=settings.mail_tls,
            sender=settings.mail_from,
            user=settings.mail_user,
            password=_first_line(settings.mail_password_file),
        )

    @contextmanager
    def connect(self) -> Iterator[smtplib.SMTP]:
        """Open a connection to the server. Raises MailServerAway."""
        context = ssl.create_default_context(cadata=self.trusted)
        try:
            if self.tls == "tls":
                client: smtplib.SMTP = smtplib.SMTP_SSL(self.host, self.port, timeout=_TIMEOUT_SECONDS, context=context)
            else:
                client = smtplib.SMTP(self.host, self.port, timeout=_TIMEOUT_SECONDS)
        except (OSError, smtplib.SMTPException) as exc:
            raise MailServerAway(f"{self.host}: {_error_text(exc)}") from exc
        with client:
            try:
                if self.tls == "starttls":
                    client.starttls(context=context)
                if self.user:
                    client.login(self.user, self.password)
            except (OSError, smtplib.SMTPException) as exc:
                raise MailServerAway(f"{self.host}: {_error_text(exc)}") from exc
            yield client


def build_message(written: RenderedMail, *, mail_id: UUID, sender: str, recipient: str) -> EmailMessage:
    """Build the message. Its Message-ID depends only on `mail_id`, so that servers can recognise repeated mails."""
    name, address = parseaddr(sender)
    message = EmailMessage()
    message["From"] = Address(to_one_line(name), addr_spec=address)
    message["To"] = Address(addr_spec=recipient)
    message["Subject"] = written.subject
    message["Date"] = format_datetime(utc_now())
    message["Message-ID"] = f"<{mail_id}@{address.rpartition('@')[2]}>"
    # Prevents automatic replies (RFC 3834 5).
    message["Auto-Submitted"] = "auto-generated"
    message.set_content(written.text)
    message.add_alternative(written.html, subtype="html")
    return message


def send_message(client: smtplib.SMTP, message: EmailMessage) -> None:
    """Send a mail. Raises MailRefused if a retry cannot succeed, and MailServerAway if a retry can succeed."""
    try:
        client.send_message(message)
    except smtplib.SMTPRecipientsRefused as exc:
        code, reply = next(iter(exc.recipients.values()))
        raise _delivery_error(code, reply) from exc
    except smtplib.SMTPResponseException as exc:
        raise _delivery_error(exc.smtp_code, exc.smtp_error) from exc
    except (OSError, smtplib.SMTPException) as exc:
        raise MailServerAway(_error_text(exc)) from exc


def _delivery_error(code: int, reply: bytes | str) -> AdmitError:
    message = reply.decode("utf-8", "replace") if isinstance(reply, bytes) else reply
    message = f"{code} {to_one_line(message)}"
    # 4yz is transient, 5yz permanent (RFC 5321 4.2.1).
    return MailRefused(message) if code >= 500 else MailServerAway(message)


def _error_text(exc: Exception) -> str:
    return to_one_line(str(exc)) or type(exc).__name__


def _first_line(file: Path | None) -> str:
    return file.read_text().partition("\n")[0] if file else ""
