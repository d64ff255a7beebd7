"""Sends mails. Mails wait in the database, so a broker failure loses no mail."""

from celery import shared_task

from nac.core.mail import outbox
from nac.core.mail.smtp import MailServer
from nac.kit.secrets import MasterKeyFile, Sealer
from nac.kit.settings import load_settings


@shared_task(name="mail.send")
def send() -> None:
    settings = load_settings()
    outbox.send_due(MailServer.from_settings(settings), unseal=Sealer(MasterKeyFile(settings.master_key_file)).open)
