"""Enforces the retention of logs."""

from celery import shared_task

from nac.kit.settings import load_settings
from nac.logs.exports.export_folder import ExportFolder
from nac.logs.retention import clock
from nac.logs.retention.enforcement import enforce_retention
from nac.logs.retention.row_deletion import DeletionWindow
from worker.task_classes import UpkeepTask

# Time limit of a run, so that no job occupies a worker process for long. The next run continues.
_TIME_BUDGET_SECONDS = 120


@shared_task(name="retention.enforce", base=UpkeepTask)
def enforce() -> None:
    """Measure the logs, send warnings, create required exports, and delete the rows of expired days."""
    settings = load_settings()
    enforce_retention(
        at=clock.read_clock(),
        window=DeletionWindow(*settings.retention_window),
        seconds=_TIME_BUDGET_SECONDS,
        folder=ExportFolder(settings.export_dir),
        database_max_bytes=settings.database_max_bytes,
    )
