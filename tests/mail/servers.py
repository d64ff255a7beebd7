"""Mail servers for tests."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP

from nac.core.mail.mailbox import Mailbox
from nac.core.mail.smtp import MailServer
from tests.ports import free_row
from worker.mailbox import MailboxHandler

LOOPBACK = "127.0.0.1"


@dataclass
class ScriptedHandler:
    """Send the configured responses in turn, then accept every mail."""

    answers: list[str] = field(default_factory=list)
    taken: list[bytes] = field(default_factory=list)

    async def handle_DATA(self, server: SMTP, session, envelope) -> str:  # noqa: N802 -- aiosmtpd's
        if self.answers:
            return self.answers.pop(0)
        self.taken.append(envelope.content)
        return "250 2.0.0 Taken"


@contextmanager
def serving(handler: object, **options: object) -> Iterator[MailServer]:
    controller = Controller(handler, hostname=LOOPBACK, port=free_row(udp=0, tcp=1), **options)
    controller.start()
    try:
        yield MailServer(LOOPBACK, controller.port, "none", "Admit <admit@admit.example>")
    finally:
        controller.stop()


def mailbox_server(mailbox: Mailbox):
    return serving(MailboxHandler(mailbox))
