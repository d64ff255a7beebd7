"""Writes exports of logs, and deletes expired exports.

Exports wait in the database, so a broker failure loses no export.
"""

from datetime import timedelta

from celery import shared_task

from nac.kit.clock import utc_now
from nac.kit.db import PlatformScope, session_scope
from nac.kit.settings import load_settings
from nac.logs.exports import runner
from nac.logs.exports.export_folder import ExportFolder
from nac.logs.retention import clock
from worker.task_classes import UpkeepTask

# Seconds until a run ends and the next export continues. With the time for one more file, a run stays below the soft
# time limit.
_TIME_BUDGET_SECONDS = 60


@shared_task(name="exports.run")
def run() -> None:
    settings = load_settings()
    limits = runner.ExportLimits(
        least_free_bytes=settings.export_least_free_bytes,
        seconds=_TIME_BUDGET_SECONDS,
        tenant_max_bytes=settings.export_tenant_max_bytes,
    )
    runner.run_next_export(ExportFolder(settings.export_dir), limits)


@shared_task(name="exports.prune", base=UpkeepTask)
def prune() -> None:
    """Delete the files of expired exports. Does nothing while Admit does not trust the system clock."""
    settings = load_settings()
    with session_scope(PlatformScope()) as session:
        if not clock.is_clock_trusted(session):
            return
    runner.prune_exports(
        ExportFolder(settings.export_dir), kept=timedelta(days=settings.export_kept_days), now=utc_now()
    )
