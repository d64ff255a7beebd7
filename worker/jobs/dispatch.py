"""Finds out from the database which jobs have work, and starts these jobs.

`heartbeat` shows that Celery's beat, the broker and the worker work together.
"""

from collections.abc import Sequence

import redis
from celery import current_app, shared_task
from sqlalchemy import text

from nac.certificates.publication import LIST_INTERVAL
from nac.kit.clock import epoch_seconds
from nac.kit.db import PlatformScope, session_scope
from nac.kit.settings import load_settings
from worker.constants import HEARTBEAT_KEY

_WAITING = text("SELECT waiting_work(:list_every)")
# Seconds after which the message of a started job expires. A job may wait for other jobs if the worker has few
# processes.
_EXPIRES_SECONDS = 60
_KEPT_SECONDS = 3600


def list_waiting_jobs() -> Sequence[str]:
    # With `by_key`, PostgreSQL plans the query once for each connection and uses indexes: the result is almost always
    # empty.
    with session_scope(PlatformScope(), by_key=True) as session:
        return session.scalars(_WAITING, {"list_every": LIST_INTERVAL}).all()


@shared_task(name="worker.dispatch")
def dispatch_waiting_jobs() -> None:
    """Start the jobs that have work.

    The next run of this task comes after these jobs have started, because the task and the jobs use the same queue.
    """
    for job in list_waiting_jobs():
        current_app.send_task(job, expires=_EXPIRES_SECONDS)


@shared_task(name="worker.heartbeat")
def heartbeat() -> None:
    with redis.Redis.from_url(load_settings(required=("REDIS_URL",)).redis_url) as client:
        client.set(HEARTBEAT_KEY, epoch_seconds(), ex=_KEPT_SECONDS)
