"""Upkeep of the change feed that cells follow."""

from celery import shared_task

from nac.cellformat.replica.change_feed import prune_changes as prune
from nac.kit.db import PlatformScope, session_scope
from nac.kit.errors import Unavailable


@shared_task(
    name="replica.prune_changes", autoretry_for=(Unavailable,), retry_backoff=True, retry_backoff_max=600, max_retries=5
)
def prune_changes() -> None:
    """Delete changes that every cell applied at least a day ago."""
    with session_scope(PlatformScope()) as session:
        prune(session)
