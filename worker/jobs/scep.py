"""Upkeep of SCEP transactions."""

from celery import shared_task

from nac.certificates.scep.pruning import prune_transactions as prune
from nac.kit.errors import Unavailable


@shared_task(
    name="scep.prune_transactions",
    autoretry_for=(Unavailable,),
    retry_backoff=True,
    retry_backoff_max=600,
    max_retries=5,
)
def prune_transactions() -> None:
    """Delete old transactions."""
    prune()
