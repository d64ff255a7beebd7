"""Sign-in: mails about accounts, and audit log entries about failed attempts."""

from celery import shared_task

from nac.accounts.account_mails import AccountMailer, AccountMailWriter
from nac.accounts.sign_in import failure_audit
from nac.kit.secrets import MasterKeyFile, Sealer
from nac.kit.settings import load_settings


@shared_task(name="sign_in.write_mails")
def write_mails() -> None:
    """Write and queue the mails for requests about accounts, such as requests for a new password."""
    settings = load_settings()
    letters = AccountMailer(settings.portal_url, Sealer(MasterKeyFile(settings.master_key_file)).seal)
    AccountMailWriter(letters).write_waiting()


@shared_task(name="sign_in.audit_failures")
def audit_failures() -> None:
    failure_audit.audit_failures()
