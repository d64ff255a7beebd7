"""Mails. They wait in the database, so a broker failure loses nothing."""

from celery import shared_task

from nac.core.mail import outbox
from nac.core.mail.smtp import MailServer
from nac.kit.errors import Unavailable
from nac.kit.secrets import MasterKeyFile, Sealer
from nac.kit.settings import load_settings


@shared_task(name="mail.send", ignore_result=True)
def send() -> None:
    """Send waiting mails."""
    settings = load_settings()
    outbox.send_due(MailServer.from_settings(settings), unseal=Sealer(MasterKeyFile(settings.master_key_file)).open)


@shared_task(name="mail.prune", autoretry_for=(Unavailable,), retry_backoff=True, retry_backoff_max=600, max_retries=5)
def prune() -> None:
    """Delete mails that were sent long ago."""
    outbox.prune()
