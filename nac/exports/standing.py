"""Days that a tenant wants to have exported before they are deleted: a job for each, and whether the day may go."""

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

from nac.exports import files
from nac.exports.columns import SOURCES
from nac.exports.files import Folder
from nac.exports.repository import ACTOR
from nac.ids import TenantId
from nac.models import ExportJob, LogSize
from nac.retention.logs import LogName

# A day's job is there so long before the day is due, so that deletion does not wait for it.
LEAD_DAYS = 2
_DAY = timedelta(days=1)
# Half of those among which PostgreSQL tells the older from the younger one, and some less.
_MOST_TRANSACTIONS = 2_000_000_000
_HORIZON = text("SELECT xact, origin FROM log_horizon()")


@dataclass(frozen=True, slots=True)
class Release:
    """Rows of a day that may be deleted: those that transactions before `rows_before` have written."""

    job_id: int
    rows_before: int


def order(session: Session, tenant_id: TenantId, log: LogName, days: Iterable[date], *, format: str) -> None:  # noqa: A002 -- the column's name
    """A job for each of the days that has none."""
    rows: list[dict[str, Any]] = [
        {
            "tenant_id": tenant_id,
            "log": log,
            "since": _midnight(day),
            "until": _midnight(day + _DAY),
            "done_until": _midnight(day),
            "format": format,
            "standing": True,
            "asked_by": ACTOR,
        }
        for day in days
    ]
    if rows:
        session.execute(insert(ExportJob).values(rows).on_conflict_do_nothing())


def begin(session: Session, job: ExportJob) -> None:
    """The job will have the rows of the transactions that have ended by now, whenever they are read."""
    job.rows_before, job.origin = session.execute(_HORIZON).one()


def ordered_days(session: Session, tenant_id: TenantId, log: LogName) -> dict[date, ExportJob]:
    query = select(ExportJob).where(ExportJob.tenant_id == tenant_id, ExportJob.log == log, ExportJob.standing)
    return {job.since.astimezone(UTC).date(): job for job in session.scalars(query)}


def released_days(session: Session, tenant_id: TenantId, log: LogName) -> frozenset[date]:
    """Days that were exported."""
    return frozenset(day for day, job in ordered_days(session, tenant_id, log).items() if job.state == "done")


def is_holding_up(job: ExportJob, now: datetime) -> bool:
    """Whether the job has not been done though its day is due."""
    return job.state != "done" and job.created_at + LEAD_DAYS * _DAY <= now


def release(
    session: Session, tenant_id: TenantId, log: LogName, day: date, *, folder: Folder, now: datetime
) -> Release | None:
    """What of the day may be deleted: what an export has in files that are as they were written. None for nothing.

    Where rows have come that it has not, or its files are not there, another export of all that is there by now takes
    its place. Once some of its rows are gone, its others go before late ones, and its files stay for their time.
    """
    job = session.scalars(_of_day(tenant_id, log, day).with_for_update()).one_or_none()
    if job is None or job.state != "done":
        return None
    horizon = session.execute(_HORIZON).one()
    if (
        job.rows_before is None
        or job.origin != horizon.origin
        or not 0 <= horizon.xact - job.rows_before < _MOST_TRANSACTIONS
    ):
        _replace(job, now)
        return None
    exported, late = _count(session, job, day)
    is_broken = files.first_broken(folder.of_job(tenant_id, job.id), job.parts) is not None
    has_begun = job.deletion_began_at is not None
    if is_broken or (late and not (has_begun and exported)) or (exported > job.rows and not has_begun):
        _replace(job, now)
        return None
    if not has_begun:
        job.deletion_began_at = now
    return Release(job.id, job.rows_before)


def still_holds(session: Session, tenant_id: TenantId, log: LogName, day: date, released: Release) -> bool:
    """Whether it is so in this transaction."""
    job = session.scalars(_of_day(tenant_id, log, day).with_for_update(read=True)).one_or_none()
    return job is not None and (job.id, job.state, job.rows_before) == (released.job_id, "done", released.rows_before)


def is_empty(session: Session, tenant_id: TenantId, log: LogName, day: date) -> bool:
    """Whether the day has no rows any more, late ones included."""
    table, moment = _place(log)
    there = exists().where(table.c.tenant_id == tenant_id, moment >= _midnight(day), moment < _midnight(day + _DAY))
    return not session.scalar(select(there))


def follow(session: Session, tenant_id: TenantId, present: Mapping[LogName, Container[date]], now: datetime) -> None:
    """See which days are `present`. Files of one that is not are the only copy: they are kept for their time from now
    on. One that is, though its files are gone already, is ordered anew."""
    query = select(ExportJob).where(
        ExportJob.tenant_id == tenant_id,
        ExportJob.standing,
        (ExportJob.state == "pruned") | ((ExportJob.state == "done") & ExportJob.rows_gone_at.is_(None)),
    )
    for job in session.scalars(query.with_for_update()):
        is_there = job.since.astimezone(UTC).date() in present[type_cast("LogName", job.log)]
        if is_there and job.state == "pruned":
            _replace(job, now)
        elif not is_there:
            job.rows_gone_at = job.rows_gone_at or now


def end(session: Session, tenant_id: TenantId, logs: Collection[LogName], *, now: datetime) -> None:
    """Nobody waits for days of these logs to be exported any more."""
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


def _of_day(tenant_id: TenantId, log: LogName, day: date) -> Select[ExportJob]:
    query = select(ExportJob).where(
        ExportJob.tenant_id == tenant_id, ExportJob.log == log, ExportJob.standing, ExportJob.since == _midnight(day)
    )
    return query.execution_options(populate_existing=True)


def _replace(job: ExportJob, now: datetime) -> None:
    """The day is ordered anew. The files stay for their time: they may be the only copy of what is gone already."""
    job.standing = False
    if job.deletion_began_at is not None:
        job.rows_gone_at = now


def _count(session: Session, job: ExportJob, day: date) -> tuple[int, int]:
    """Rows of the day that the export has, and those that it has not."""
    table, moment = _place(type_cast("LogName", job.log))
    has = func.is_written_before(literal_column(f"{table.name}.xmin"), job.rows_before)
    query = select(func.count().filter(has), func.count().filter(~has)).where(
        table.c.tenant_id == job.tenant_id, moment >= _midnight(day), moment < _midnight(day + _DAY)
    )
    exported, late = session.execute(query).one()
    return exported, late


def _place(log: LogName) -> tuple[Table, ColumnElement[datetime]]:
    return SOURCES[log].table, SOURCES[log].table.c[SOURCES[log].moment]


def forget(session: Session, tenant_id: TenantId, *, before: datetime) -> None:
    """Delete jobs that ended before then, but those that tell of days that are still there that they were exported."""
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
