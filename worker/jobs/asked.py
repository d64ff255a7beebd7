"""What somebody has asked for. It waits in the database, so the broker can lose nothing."""

import time
from functools import cache

from celery import shared_task
from sqlalchemy import Engine

from nac.db import PlatformScope, limit_waiting, make_engine, session_scope
from nac.errors import Unavailable
from nac.jobs import runner, service
from nac.secrets import MasterKeyFile, Sealer
from nac.settings import load_settings
from worker.handlers import HANDLERS
from worker.names import LONG_SECONDS, LONG_STATEMENT_SECONDS
from worker.priority import serve_last

# What is left then is gone on with a second later.
_SECONDS = 20


# One job may take long where its handler is a single transaction: it renews its lease as it tells how far it is.
@shared_task(name="jobs.run", ignore_result=True, soft_time_limit=LONG_SECONDS, time_limit=LONG_SECONDS + 30)
def run() -> None:
    """Do what waits, one after the other."""
    sealer = Sealer(MasterKeyFile(load_settings().master_key_file))
    deadline = time.monotonic() + _SECONDS
    with limit_waiting(LONG_STATEMENT_SECONDS):
        while runner.run_next(HANDLERS, unseal=sealer.open, app_engine=_app_engine()) and time.monotonic() < deadline:
            pass


@cache
def _app_engine() -> Engine:
    """Of this process of the worker; made after the fork."""
    return serve_last(make_engine(load_settings().database_url, pool_size=2, application_name="admit-jobs"))


@shared_task(name="jobs.prune", autoretry_for=(Unavailable,), retry_backoff=True, retry_backoff_max=600, max_retries=5)
def prune() -> None:
    """Forget jobs that ended long ago."""
    with session_scope(PlatformScope()) as session:
        service.prune(session)
