"""Seals entries of the audit log into the audit chains.

Also writes mails about accounts, and audit log entries about failed sign-ins.
"""

import time
from functools import cache

from celery import shared_task

from nac.accounts.account_mails import AccountMailer, AccountMailWriter
from nac.accounts.sign_in import failure_audit
from nac.core.audit.chain import load_or_create_keys
from nac.core.audit.chain_seals import BATCH_SIZE, seal_waiting_entries
from nac.kit.clock import utc_now
from nac.kit.db import PlatformScope, session_scope
from nac.kit.secrets import MasterKeyFile, Sealer
from nac.kit.settings import load_settings

# Time limit of a run. The next run continues with the remaining entries.
_TIME_BUDGET_SECONDS = 30.0


@shared_task(name="audit.seal")
def seal() -> None:
    until = time.monotonic() + _TIME_BUDGET_SECONDS
    while time.monotonic() < until:
        with session_scope(PlatformScope()) as session:
            if seal_waiting_entries(session, keys=load_or_create_keys(session, _sealer()), now=utc_now()) < BATCH_SIZE:
                return


@cache
def _sealer() -> Sealer:
    return Sealer(MasterKeyFile(load_settings().master_key_file))


@shared_task(name="sign_in.write_mails")
def write_mails() -> None:
    """Write and queue the mails for requests about accounts, such as requests for a new password."""
    settings = load_settings()
    letters = AccountMailer(settings.portal_url, Sealer(MasterKeyFile(settings.master_key_file)).seal)
    AccountMailWriter(letters).write_waiting()


@shared_task(name="sign_in.audit_failures")
def audit_failures() -> None:
    failure_audit.audit_failures()
