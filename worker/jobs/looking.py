"""What waits in the database for one of the jobs that work a queue off."""

from collections.abc import Sequence

from celery import current_app, shared_task
from sqlalchemy import text

from nac.certificates.publication import LIST_INTERVAL
from nac.db import PlatformScope, session_scope

_WAITING = text("SELECT waiting_work(:list_every)")
# Jobs wait for one another where the worker has few processes; of one queue there is nothing to wait for after that.
_EXPIRES_SECONDS = 60


def waiting() -> Sequence[str]:
    """Names of jobs."""
    # Planned once for a connection, by indexes: it finds nothing nearly always.
    with session_scope(PlatformScope(), by_key=True) as session:
        return session.scalars(_WAITING, {"list_every": LIST_INTERVAL}).all()


@shared_task(name="worker.look", ignore_result=True)
def look() -> None:
    """Have done what is due. Who looks next does so when all of that has begun, since both wait in one line."""
    for job in waiting():
        current_app.send_task(job, expires=_EXPIRES_SECONDS)
