"""Care of the requests to NASes."""

from celery import shared_task

from nac.coa_requests.pruning import prune_requests
from nac.errors import Unavailable


@shared_task(name="coa.prune", autoretry_for=(Unavailable,), retry_backoff=True, retry_backoff_max=600, max_retries=5)
def prune() -> None:
    """Delete requests that ended long ago."""
    prune_requests()
