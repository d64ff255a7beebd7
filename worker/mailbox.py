"""Local mail server, which Admit uses if no other mail server is set.

Listens on loopback, stores each mail and forwards no mail.
"""

import asyncio
import logging
import signal

from aiosmtpd.smtp import SMTP, Envelope, Session

from nac.core.mail.mailbox import MAX_MAIL_BYTES, Mailbox
from nac.kit.settings import load_settings

_log = logging.getLogger(__name__)


class MailboxHandler:
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


async def _serve() -> None:
    settings = load_settings()
    taking = MailboxHandler(Mailbox(settings.mailbox_dir))
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    for ending in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(ending, ended.set)
    server = await loop.create_server(
        lambda: SMTP(taking, hostname="mailbox.admit", data_size_limit=MAX_MAIL_BYTES, ident="Admit"),
        host="127.0.0.1",
        port=settings.mailbox_port,
    )
    async with server:
        await ended.wait()


if __name__ == "__main__":
    asyncio.run(_serve())
