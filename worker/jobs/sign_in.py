"""Signing in: mails about accounts, what the audit log tells of attempts, and what is forgotten."""

from celery import shared_task

from nac.account_mails.mail_writer import AccountMailWriter
from nac.account_mails.mailer import AccountMailer
from nac.errors import Unavailable
from nac.secrets import MasterKeyFile, Sealer
from nac.settings import load_settings
from nac.sign_in import failure_audit, pruning


@shared_task(name="sign_in.write_mails", ignore_result=True)
def write_mails() -> None:
    """Look up what was asked for, and queue the mails."""
    settings = load_settings()
    letters = AccountMailer(settings.portal_url, Sealer(MasterKeyFile(settings.master_key_file)).seal)
    AccountMailWriter(letters).write_waiting()


@shared_task(name="sign_in.tell", ignore_result=True)
def tell() -> None:
    """Tell in the audit log of attempts that failed."""
    failure_audit.audit_failures()


@shared_task(
    name="sign_in.prune", autoretry_for=(Unavailable,), retry_backoff=True, retry_backoff_max=600, max_retries=5
)
def prune() -> None:
    """Forget sign-ins, links and counters of long ago."""
    pruning.prune()
