"""Handler of the local mail server."""

import logging

from aiosmtpd.smtp import SMTP, Envelope, Session

from nac.core.mail.mailbox import Mailbox

_log = logging.getLogger(__name__)


class MailboxHandler:
    """Handler of aiosmtpd that stores each mail in the mailbox."""

    def __init__(self, mailbox: Mailbox) -> None:
        self._mailbox = mailbox

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:  # noqa: N802 -- aiosmtpd's
        content = envelope.content or b""
        try:
            self._mailbox.put(content if isinstance(content, bytes) else content.encode())
        except OSError:
            _log.exception("cannot store a mail")
            return "452 4.3.1 No room"
        return "250 2.0.0 Taken"
