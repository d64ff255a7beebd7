"""Required exports: for a tenant that requires exports, retention deletes only days that a job has exported."""

from collections.abc import Collection, Container, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Any
from typing import cast as type_cast

from sqlalchemy import (
    ColumnElement,
    Date,
    Select,
    Table,
    cast,
    delete,
    exists,
    func,
    literal_column,
    select,
    text,
    update,
)
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from nac.kit.ids import TenantId
from nac.logs.exports import export_folder
from nac.logs.exports.columns import LOG_SOURCES
from nac.logs.exports.export_folder import ExportFolder
from nac.logs.exports.service import RETENTION_ACTOR
from nac.logs.log_tables import LogName
from nac.models import ExportJob, LogSize

# Retention creates the export job this number of days before the deletion, so that the deletion need not wait.
LEAD_DAYS = 2
_DAY = timedelta(days=1)
# Maximum difference of two transaction ids. Beyond 2^31, the order of PostgreSQL's 32-bit ids is ambiguous.
_MAX_TRANSACTION_AGE = 2_000_000_000
_HORIZON_SQL = text("SELECT xact, origin FROM log_horizon()")


@dataclass(frozen=True, slots=True)
class DeletionRelease:
    """Permission to delete exported rows of a day: the rows that transactions with an id below `rows_before` wrote."""

    job_id: int
    rows_before: int


def create_jobs(session: Session, tenant_id: TenantId, log: LogName, days: Iterable[date], *, format: str) -> None:  # noqa: A002 -- the column's name
    """Create an export job for each day in `days` that has no export job."""
    rows: list[dict[str, Any]] = [
        {
            "tenant_id": tenant_id,
            "log": log,
            "since": _midnight(day),
            "until": _midnight(day + _DAY),
            "done_until": _midnight(day),
            "format": format,
            "standing": True,
            "requested_by": RETENTION_ACTOR,
        }
        for day in days
    ]
    if rows:
        session.execute(insert(ExportJob).values(rows).on_conflict_do_nothing())


def record_horizon(session: Session, job: ExportJob) -> None:
    """Record which rows the job exports: the rows of transactions that have ended by now."""
    job.rows_before, job.origin = session.execute(_HORIZON_SQL).one()


def jobs_by_day(session: Session, tenant_id: TenantId, log: LogName) -> dict[date, ExportJob]:
    query = select(ExportJob).where(ExportJob.tenant_id == tenant_id, ExportJob.log == log, ExportJob.standing)
    return {job.since.astimezone(UTC).date(): job for job in session.scalars(query)}


def list_exported_days(session: Session, tenant_id: TenantId, log: LogName) -> frozenset[date]:
    """Return the days whose required export is complete."""
    return frozenset(day for day, job in jobs_by_day(session, tenant_id, log).items() if job.state == "done")


def is_delaying_deletion(job: ExportJob, now: datetime) -> bool:
    """Return whether the job is incomplete although its day is due for deletion."""
    return job.state != "done" and job.created_at + LEAD_DAYS * _DAY <= now


def release_day(
    session: Session, tenant_id: TenantId, log: LogName, day: date, *, folder: ExportFolder, now: datetime
) -> DeletionRelease | None:
    """Return the permission to delete a day's exported rows; None if the day has no complete and intact export.

    If rows arrived after the export, or the files of the export are damaged, Admit schedules a new export of all
    existing rows. If rows arrived after the deletion began, retention first deletes the remaining exported rows. Then a
    new export contains the late rows.
    """
    job = session.scalars(_job_query(tenant_id, log, day).with_for_update()).one_or_none()
    if job is None or job.state != "done":
        return None
    horizon = session.execute(_HORIZON_SQL).one()
    if (
        job.rows_before is None
        or job.origin != horizon.origin
        or not 0 <= horizon.xact - job.rows_before < _MAX_TRANSACTION_AGE
    ):
        _reorder_day(job, now)
        return None
    exported, late = _count_rows(session, job, day)
    is_broken = export_folder.find_damaged_part(folder.job_path(tenant_id, job.id), job.parts) is not None
    has_begun = job.deletion_began_at is not None
    if is_broken or (late and not (has_begun and exported)) or (exported > job.rows and not has_begun):
        _reorder_day(job, now)
        return None
    if not has_begun:
        job.deletion_began_at = now
    return DeletionRelease(job.id, job.rows_before)


def is_release_valid(session: Session, tenant_id: TenantId, log: LogName, day: date, released: DeletionRelease) -> bool:
    """Lock the export on which the permission `released` depends. Returns whether the export is unchanged."""
    job = session.scalars(_job_query(tenant_id, log, day).with_for_update(read=True)).one_or_none()
    return job is not None and (job.id, job.state, job.rows_before) == (released.job_id, "done", released.rows_before)


def is_day_empty(session: Session, tenant_id: TenantId, log: LogName, day: date) -> bool:
    """Return whether the log has no rows of the day any more, neither exported rows nor rows that arrived later."""
    table, moment = _table_and_moment(log)
    there = exists().where(table.c.tenant_id == tenant_id, moment >= _midnight(day), moment < _midnight(day + _DAY))
    return not session.scalar(select(there))


def update_presence(
    session: Session, tenant_id: TenantId, present: Mapping[LogName, Container[date]], now: datetime
) -> None:
    """Update the required exports after the logs were measured. `present` has, for each log, the days that have rows.

    If a day has no rows, the day's files are the only copy, and their retention begins now. If a day has rows and
    its files are deleted, a new job exports the day again.
    """
    query = select(ExportJob).where(
        ExportJob.tenant_id == tenant_id,
        ExportJob.standing,
        (ExportJob.state == "pruned") | ((ExportJob.state == "done") & ExportJob.rows_gone_at.is_(None)),
    )
    for job in session.scalars(query.with_for_update()):
        is_there = job.since.astimezone(UTC).date() in present[type_cast("LogName", job.log)]
        if is_there and job.state == "pruned":
            _reorder_day(job, now)
        elif not is_there:
            job.rows_gone_at = job.rows_gone_at or now


def cancel_jobs(session: Session, tenant_id: TenantId, logs: Collection[LogName], *, now: datetime) -> None:
    """Cancel the pending required exports of these logs."""
    session.execute(
        update(ExportJob)
        .where(
            ExportJob.tenant_id == tenant_id,
            ExportJob.log.in_(logs),
            ExportJob.standing,
            ExportJob.state.in_(("queued", "running")),
        )
        .values(state="cancelled", standing=False, ended_at=now)
    )


def _job_query(tenant_id: TenantId, log: LogName, day: date) -> Select[ExportJob]:
    query = select(ExportJob).where(
        ExportJob.tenant_id == tenant_id, ExportJob.log == log, ExportJob.standing, ExportJob.since == _midnight(day)
    )
    return query.execution_options(populate_existing=True)


def _reorder_day(job: ExportJob, now: datetime) -> None:
    """Detach the job from its day, so that retention creates a new job for the day.

    Admit does not delete the files of the old job early, because they may be the only copy of deleted rows.
    """
    job.standing = False
    if job.deletion_began_at is not None:
        job.rows_gone_at = now


def _count_rows(session: Session, job: ExportJob, day: date) -> tuple[int, int]:
    """Return two numbers: of the day's rows that the export contains, and of the day's other rows."""
    table, moment = _table_and_moment(type_cast("LogName", job.log))
    has = func.is_written_before(literal_column(f"{table.name}.xmin"), job.rows_before)
    query = select(func.count().filter(has), func.count().filter(~has)).where(
        table.c.tenant_id == job.tenant_id, moment >= _midnight(day), moment < _midnight(day + _DAY)
    )
    exported, late = session.execute(query).one()
    return exported, late


def _table_and_moment(log: LogName) -> tuple[Table, ColumnElement[datetime]]:
    return LOG_SOURCES[log].table, LOG_SOURCES[log].table.c[LOG_SOURCES[log].moment]


def delete_old_jobs(session: Session, tenant_id: TenantId, *, before: datetime) -> None:
    """Delete jobs that ended before `before`, except required exports of days that still have rows."""
    there = exists().where(
        LogSize.tenant_id == ExportJob.tenant_id,
        LogSize.log == ExportJob.log,
        LogSize.day == cast(func.timezone("UTC", ExportJob.since), Date),
    )
    session.execute(
        delete(ExportJob).where(
            ExportJob.tenant_id == tenant_id, ExportJob.ended_at < before, ~(ExportJob.standing & there)
        )
    )


def _midnight(day: date) -> datetime:
    return datetime.combine(day, time(), UTC)
