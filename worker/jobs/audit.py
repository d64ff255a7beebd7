"""Seals entries of the audit log into the audit chains."""

import time
from functools import cache

from celery import shared_task

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
