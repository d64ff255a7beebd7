"""Care of the partitioned log tables."""

from datetime import timedelta

from celery import shared_task
from sqlalchemy import func, select

from nac.clock import utc_now
from nac.db import PlatformScope, session_scope
from nac.errors import Unavailable

_DAYS_AHEAD = 7


@shared_task(
    name="logs.ensure_partitions",
    autoretry_for=(Unavailable,),
    retry_backoff=True,
    retry_backoff_max=600,
    max_retries=20,
)
def ensure_partitions() -> None:
    """Make the daily partitions from yesterday to a week ahead; those that exist are left alone."""
    yesterday = utc_now().date() - timedelta(days=1)
    with session_scope(PlatformScope()) as session:
        session.execute(select(func.ensure_log_partitions(yesterday, _DAYS_AHEAD + 2)))
