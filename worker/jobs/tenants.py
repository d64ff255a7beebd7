"""Deletes tenants, and the logs of deleted tenants."""

from datetime import timedelta

from celery import shared_task

from nac.kit.clock import utc_now
from nac.kit.db import limit_waiting
from nac.kit.secrets import MasterKeyFile, Sealer
from nac.kit.settings import load_settings
from nac.onboarding.log_purge import delete_logs as delete_logs_of_purged
from nac.onboarding.tenant_files.file_jobs import get_folder
from nac.onboarding.tenant_purge import delete_last_files, delete_old_files, purge_due
from worker.constants import LONG_JOB_SECONDS, LONG_STATEMENT_SECONDS
from worker.task_classes import UpkeepTask

# Time limit of a run, below the soft time limit of jobs. The run an hour later continues.
_TIME_BUDGET_SECONDS = 200


@shared_task(name="tenants.delete_logs", base=UpkeepTask)
def delete_logs() -> None:
    """Delete the logs of purged tenants, in batches."""
    delete_logs_of_purged(seconds=_TIME_BUDGET_SECONDS)


# The time limit is longer than usual. Otherwise, the file of a large tenant would be restarted forever.
@shared_task(
    name="tenants.purge",
    base=UpkeepTask,
    max_retries=3,
    soft_time_limit=LONG_JOB_SECONDS,
    time_limit=LONG_JOB_SECONDS + 30,
)
def purge() -> None:
    """Write the file of each tenant whose grace period has ended, then delete the tenant."""
    settings = load_settings(required=("DATABASE_WORKER_URL", "MASTER_KEY_FILE"))
    folder = settings.export_dir / "tenants"
    with limit_waiting(LONG_STATEMENT_SECONDS):
        purge_due(folder=folder, sealer=Sealer(MasterKeyFile(settings.master_key_file)), now=utc_now())
    kept = timedelta(days=settings.export_kept_days)
    delete_last_files(folder, kept=kept)
    delete_old_files(get_folder(settings.export_dir), kept=kept)
