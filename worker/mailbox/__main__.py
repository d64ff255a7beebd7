"""Local mail server for an installation without one: accepts every mail and forwards none. Loopback only."""

import asyncio
import signal

from aiosmtpd.smtp import SMTP

from nac.core.mail.mailbox import MAX_MAIL_BYTES, Mailbox
from nac.kit.settings import load_settings
from worker.mailbox.handler import MailboxHandler


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


asyncio.run(_serve())
