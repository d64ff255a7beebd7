"""Sign-in: mails about accounts, audit entries of failed attempts, and deletion of old data."""

from celery import shared_task

from nac.accounts.account_mails.mail_writer import AccountMailWriter
from nac.accounts.account_mails.mailer import AccountMailer
from nac.accounts.sign_in import failure_audit, pruning
from nac.kit.errors import Unavailable
from nac.kit.secrets import MasterKeyFile, Sealer
from nac.kit.settings import load_settings


@shared_task(name="sign_in.write_mails", ignore_result=True)
def write_mails() -> None:
    """Process waiting requests and queue their mails."""
    settings = load_settings()
    letters = AccountMailer(settings.portal_url, Sealer(MasterKeyFile(settings.master_key_file)).seal)
    AccountMailWriter(letters).write_waiting()


@shared_task(name="sign_in.tell", ignore_result=True)
def tell() -> None:
    """Record failed attempts in the audit log."""
    failure_audit.audit_failures()


@shared_task(
    name="sign_in.prune", autoretry_for=(Unavailable,), retry_backoff=True, retry_backoff_max=600, max_retries=5
)
def prune() -> None:
    """Delete old sign-ins, links and counters."""
    pruning.prune()
