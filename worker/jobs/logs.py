"""Creates partitions of the log tables, and enforces the retention of logs."""

from datetime import timedelta

from celery import shared_task
from sqlalchemy import Engine, func, select

from nac.kit.clock import utc_now
from nac.kit.db import PlatformScope, session_scope
from nac.kit.errors import Unavailable
from nac.kit.settings import load_settings
from nac.logs.exports.export_folder import ExportFolder
from nac.logs.log_tables import PARTITIONED_LOGS
from nac.logs.retention import clock
from nac.logs.retention.enforcement import enforce_retention
from nac.logs.retention.row_deletion import DeletionWindow
from worker.task_classes import UpkeepTask

_DAYS_AHEAD = 7


@shared_task(name="logs.ensure_partitions", base=UpkeepTask, max_retries=20)
def ensure_partitions() -> None:
    """Create missing daily partitions, from yesterday to a week ahead."""
    create_partitions()


def create_partitions(*, engine: Engine | None = None) -> None:
    """Create each missing partition in a separate transaction, so that waiting for a lock blocks no other partition.

    Raises Unavailable at the end if long writes to the default partition prevented the creation of some partitions.
    """
    yesterday = utc_now().date() - timedelta(days=1)
    busy = []
    for log in PARTITIONED_LOGS:
        for number in range(_DAYS_AHEAD + 2):
            day = yesterday + timedelta(days=number)
            with session_scope(PlatformScope(), engine=engine) as session:
                if session.scalar(select(func.make_log_partition(log, day))) == "busy":
                    busy.append(f"{log} {day}")
    if busy:
        raise Unavailable(f"Partitions cannot be created during long writes: {', '.join(busy)}.")


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
