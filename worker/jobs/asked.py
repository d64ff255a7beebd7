"""What somebody has asked for. It waits in the database, so the broker can lose nothing."""

import time

from celery import shared_task

from nac.db import PlatformScope, session_scope
from nac.errors import Unavailable
from nac.jobs import running, service
from nac.secrets import MasterKeyFile, Sealer
from nac.settings import load_settings
from worker.handlers import HANDLERS

# What is left then is gone on with a second later.
_SECONDS = 20


# One job may take long where its handler is a single transaction: it renews its lease as it tells how far it is.
@shared_task(name="jobs.run", ignore_result=True, soft_time_limit=3_600, time_limit=3_630)
def run() -> None:
    """Do what waits, one after the other."""
    sealer = Sealer(MasterKeyFile(load_settings().master_key_file))
    deadline = time.monotonic() + _SECONDS
    while running.run_next(HANDLERS, unseal=sealer.open) and time.monotonic() < deadline:
        pass


@shared_task(name="jobs.prune", autoretry_for=(Unavailable,), retry_backoff=True, retry_backoff_max=600, max_retries=5)
def prune() -> None:
    """Forget jobs that ended long ago."""
    with session_scope(PlatformScope()) as session:
        service.prune(session)
