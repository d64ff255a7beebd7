"""Finds jobs with waiting work in the database."""

from collections.abc import Sequence

from celery import current_app, shared_task
from sqlalchemy import text

from nac.certificates.publication import LIST_INTERVAL
from nac.kit.db import PlatformScope, session_scope

_WAITING = text("SELECT waiting_work(:list_every)")
# A queued job may wait for others if the worker has few processes, but not longer than this.
_EXPIRES_SECONDS = 60


def list_waiting_jobs() -> Sequence[str]:
    """Names of the jobs with work."""
    # Planned once for a connection, with indexes: the result is almost always empty.
    with session_scope(PlatformScope(), by_key=True) as session:
        return session.scalars(_WAITING, {"list_every": LIST_INTERVAL}).all()


@shared_task(name="worker.dispatch")
def dispatch_waiting_jobs() -> None:
    """Start due jobs. The next run comes after they have started, because all share one queue."""
    for job in list_waiting_jobs():
        current_app.send_task(job, expires=_EXPIRES_SECONDS)
