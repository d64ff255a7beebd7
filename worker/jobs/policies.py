"""Upkeep of policy hit counts."""

from celery import shared_task

from nac.kit.errors import Unavailable
from nac.policies.hits import prune_hits as prune


@shared_task(
    name="policies.prune_hits", autoretry_for=(Unavailable,), retry_backoff=True, retry_backoff_max=600, max_retries=5
)
def prune_hits() -> None:
    """Delete old hit counts."""
    prune()
