"""What is left of tenants that are gone."""

from celery import shared_task

from nac.errors import Unavailable
from nac.tenants.purge import delete_logs as delete_logs_of_purged

# Below the soft time limit; what is left then goes an hour later.
_SECONDS = 200


@shared_task(
    name="tenants.delete_logs", autoretry_for=(Unavailable,), retry_backoff=True, retry_backoff_max=600, max_retries=5
)
def delete_logs() -> None:
    """Delete the logs of purged tenants, in batches."""
    delete_logs_of_purged(seconds=_SECONDS)
