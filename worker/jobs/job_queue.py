"""Jobs that clients start. They wait in the database, so a broker failure loses nothing."""

import time
from functools import cache

from celery import shared_task
from sqlalchemy import Engine

from nac.core.jobs import runner, service
from nac.kit.db import PlatformScope, limit_waiting, make_engine, session_scope
from nac.kit.errors import Unavailable
from nac.kit.secrets import MasterKeyFile, Sealer
from nac.kit.settings import load_settings
from worker.constants import LONG_JOB_SECONDS, LONG_STATEMENT_SECONDS
from worker.handlers import JOB_HANDLERS
from worker.priority import lower_connection_priority

# After this time the rest continues a second later.
_TIME_BUDGET_SECONDS = 20


# A handler with a single transaction may take long: it renews its lease with each progress report.
@shared_task(name="jobs.run", ignore_result=True, soft_time_limit=LONG_JOB_SECONDS, time_limit=LONG_JOB_SECONDS + 30)
def run() -> None:
    """Run waiting jobs, one after the other."""
    sealer = Sealer(MasterKeyFile(load_settings().master_key_file))
    deadline = time.monotonic() + _TIME_BUDGET_SECONDS
    with limit_waiting(LONG_STATEMENT_SECONDS):
        while (
            runner.run_next(JOB_HANDLERS, unseal=sealer.open, app_engine=_app_engine()) and time.monotonic() < deadline
        ):
            pass


@cache
def _app_engine() -> Engine:
    """Engine of this process, created after the fork."""
    return lower_connection_priority(
        make_engine(load_settings().database_url, pool_size=2, application_name="admit-jobs")
    )


@shared_task(name="jobs.prune", autoretry_for=(Unavailable,), retry_backoff=True, retry_backoff_max=600, max_retries=5)
def prune() -> None:
    """Delete jobs that ended long ago."""
    with session_scope(PlatformScope()) as session:
        service.prune(session)
