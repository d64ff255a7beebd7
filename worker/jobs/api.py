"""Upkeep of stored API responses."""

from celery import shared_task

from nac.core.idempotency import service as idempotency
from nac.kit.db import PlatformScope, session_scope
from nac.kit.errors import Unavailable


@shared_task(
    name="api.prune_answers", autoretry_for=(Unavailable,), retry_backoff=True, retry_backoff_max=600, max_retries=5
)
def prune_answers() -> None:
    """Delete responses of idempotent requests after a day."""
    with session_scope(PlatformScope()) as session:
        idempotency.prune(session)
