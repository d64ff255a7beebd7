"""Delivery of queued mails.

Runs as database role admit_worker, in PlatformScope. A worker leases a mail for the time LEASE.

If a worker fails after it sent a mail and before it recorded the delivery, Admit sends the mail again with the same
Message-ID.
"""

import json
import logging
import time
from collections.abc import Sequence
from datetime import timedelta
from email.message import EmailMessage

from sqlalchemy import Engine

from nac.core.mail.rendering import render
from nac.core.mail.repository import delete_ended, take_due, update_mail
from nac.core.mail.smtp import MailRefused, MailServer, MailServerAway, build_message, send_message
from nac.kit.clock import utc_now
from nac.kit.db import PlatformScope, session_scope
from nac.kit.sealing import Unseal
from nac.models import Mail
from nac.models.mail import MailState, mail_context

_log = logging.getLogger(__name__)
LEASE = timedelta(minutes=5)
BATCH_SIZE = 20
RETENTION = timedelta(days=30)
# Delay after each failed attempt to send a mail. If the attempt after the last delay fails too, Admit gives up.
RETRY_AFTER = tuple(timedelta(minutes=minutes) for minutes in (1, 5, 30, 120, 360, 720))


def send_due(server: MailServer, *, unseal: Unseal, seconds: float = 60, engine: Engine | None = None) -> int:
    """Send due mails. Returns the number of sent mails."""
    deadline, sent = time.monotonic() + seconds, 0
    while time.monotonic() < deadline:
        with session_scope(PlatformScope(), engine=engine) as session:
            mails = take_due(session, now=utc_now(), lease=LEASE, most=BATCH_SIZE)
        if not mails:
            break
        sent += _send_all(server, mails, unseal, engine)
    return sent


def _send_all(server: MailServer, mails: Sequence[Mail], unseal: Unseal, engine: Engine | None) -> int:
    sent = 0
    try:
        with server.connect() as client:
            for mail in mails:
                try:
                    send_message(client, _build_message(mail, server, unseal))
                except MailRefused as exc:
                    _finish(mail, "failed", str(exc), engine)
                except MailServerAway as exc:
                    _postpone(mail, str(exc), engine)
                except Exception:  # house-rule: an error in one mail does not stop the others
                    _log.exception("cannot write mail %s", mail.id)
                    _finish(mail, "failed", "The mail cannot be written. See the worker's log.", engine)
                else:
                    _finish(mail, "sent", "", engine)
                    sent += 1
    except MailServerAway as exc:
        _log.warning("cannot send mails yet: %s", exc)
        for mail in mails:
            _postpone(mail, str(exc), engine)
    return sent


def _build_message(mail: Mail, server: MailServer, unseal: Unseal) -> EmailMessage:
    assert mail.values_sealed is not None
    values = json.loads(unseal(mail.values_sealed, mail_context(mail.id)))
    return build_message(render(mail.template, values), mail_id=mail.id, sender=server.sender, recipient=mail.recipient)


def _finish(mail: Mail, state: MailState, error: str, engine: Engine | None) -> None:
    if error:
        _log.warning("mail %s (%s) is not sent: %s", mail.id, mail.template, error)
    with session_scope(PlatformScope(), engine=engine) as session:
        update_mail(session, mail.id, mail.attempts, state=state, error=error, ended_at=utc_now(), values_sealed=None)


def _postpone(mail: Mail, error: str, engine: Engine | None) -> None:
    if mail.attempts > len(RETRY_AFTER):
        _finish(mail, "failed", error, engine)
        return
    due_at = utc_now() + RETRY_AFTER[mail.attempts - 1]
    with session_scope(PlatformScope(), engine=engine) as session:
        update_mail(session, mail.id, mail.attempts, due_at=due_at, error=error)


def prune(*, engine: Engine | None = None) -> int:
    """Delete mails that were sent or failed more than RETENTION ago. Returns the number of deleted mails."""
    with session_scope(PlatformScope(), engine=engine) as session:
        return delete_ended(session, before=utc_now() - RETENTION)
