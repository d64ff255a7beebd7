"""Deletes tenants and their logs, runs self-tests, maintains trials, and finishes secret rotations.

Self-tests wait in the database, so a broker failure loses no self-test.
"""

from datetime import timedelta

from celery import shared_task

from nac.certificates.signing import SigningContext
from nac.kit.clock import utc_now
from nac.kit.db import limit_waiting
from nac.kit.secrets import MasterKeyFile, Sealer
from nac.kit.settings import load_settings
from nac.onboarding.log_purge import delete_logs as delete_logs_of_purged
from nac.onboarding.self_tests import runner
from nac.onboarding.tenant_files.file_jobs import get_folder
from nac.onboarding.tenant_purge import delete_last_files, delete_old_files, purge_due
from nac.onboarding.trials.lifecycle import TrialEnvironment, process_trials
from nac.onboarding.trials.service import SignUpContext
from nac.tenancy.secret_rotations.service import finish_expired
from worker.constants import LONG_JOB_SECONDS, LONG_STATEMENT_SECONDS
from worker.task_classes import UpkeepTask

# Seconds until a run ends, below the soft time limit of jobs. The run an hour later continues.
_TIME_BUDGET_SECONDS = 200


@shared_task(name="tenants.delete_logs", base=UpkeepTask)
def delete_logs() -> None:
    """Delete the logs of purged tenants, in batches."""
    delete_logs_of_purged(seconds=_TIME_BUDGET_SECONDS)


# The time limit is longer than usual. Otherwise, the job would start the file of a large tenant again and again.
@shared_task(
    name="tenants.purge",
    base=UpkeepTask,
    max_retries=3,
    soft_time_limit=LONG_JOB_SECONDS,
    time_limit=LONG_JOB_SECONDS + 30,
)
def purge() -> None:
    """Purge each deleted tenant whose grace period has ended, after writing a last tenant file."""
    settings = load_settings(required=("DATABASE_WORKER_URL", "MASTER_KEY_FILE"))
    folder = settings.export_dir / "tenants"
    with limit_waiting(LONG_STATEMENT_SECONDS):
        purge_due(folder=folder, sealer=Sealer(MasterKeyFile(settings.master_key_file)), now=utc_now())
    kept = timedelta(days=settings.export_kept_days)
    delete_last_files(folder, kept=kept)
    delete_old_files(get_folder(settings.export_dir), kept=kept)


@shared_task(name="self_tests.run")
def run() -> None:
    settings = load_settings()
    platform = runner.SelfTestPlatform(
        SigningContext.from_settings(settings), settings.radius_host, settings.reject_delay_seconds
    )
    runner.run_waiting(platform)


@shared_task(name="trials.keep")
def keep() -> None:
    """Create missing tenants of confirmed sign-ups, send reminders, enforce limits, and end expired trials."""
    settings = load_settings()
    signing = SigningContext.from_settings(settings)
    desk = SignUpContext(settings.trials, settings.portal_url, signing.sealer.seal)
    process_trials(TrialEnvironment(desk, signing, settings.radius_host))


@shared_task(name="secret_rotations.finish")
def finish() -> None:
    """Finish the secret rotations whose time has ended, if they end automatically."""
    settings = load_settings(required=("DATABASE_WORKER_URL", "MASTER_KEY_FILE"))
    finish_expired(Sealer(MasterKeyFile(settings.master_key_file)))
