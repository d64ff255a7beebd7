"""Days that a tenant wants to have exported before they are deleted: a job for each, and whether the day may go."""

from collections.abc import Iterable
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

from sqlalchemy import Date, cast, delete, exists, func, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from nac.exports.columns import SOURCES
from nac.ids import TenantId
from nac.models import ExportJob, LogSize
from nac.retention.logs import LogName

# A day's job is there so long before the day is due, so that deletion does not wait for it.
LEAD_DAYS = 2
ACTOR = "system:retention"
_DAY = timedelta(days=1)
_WRITTEN = ("done", "pruned")


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


def ordered_days(session: Session, tenant_id: TenantId, log: LogName) -> dict[date, ExportJob]:
    query = select(ExportJob).where(ExportJob.tenant_id == tenant_id, ExportJob.log == log, ExportJob.standing)
    return {job.since.astimezone(UTC).date(): job for job in session.scalars(query)}


def released_days(
    session: Session, tenant_id: TenantId, log: LogName, *, wait_days: int, now: datetime
) -> frozenset[date]:
    """Days that were exported, or whose deletion has waited for that for `wait_days`."""
    return frozenset(
        day
        for day, job in ordered_days(session, tenant_id, log).items()
        if job.state in _WRITTEN or overdue_at(job, wait_days) <= now
    )


def overdue_at(job: ExportJob, wait_days: int) -> datetime:
    """When the day is deleted whether it was exported or not."""
    return job.created_at + (LEAD_DAYS + wait_days) * _DAY


def is_holding_up(job: ExportJob, now: datetime) -> bool:
    """Whether the job has not been done though its day is due."""
    return job.state not in _WRITTEN and job.created_at + LEAD_DAYS * _DAY <= now


def may_delete(
    session: Session, tenant_id: TenantId, log: LogName, day: date, *, now: datetime, in_parts: bool
) -> bool:
    """Asked once more, right before the day is deleted; False where rows have come since it was exported.

    Those are exported first: the job is begun anew. `in_parts`: batch by batch, of which only the first one is asked.
    """
    query = select(ExportJob).where(
        ExportJob.tenant_id == tenant_id, ExportJob.log == log, ExportJob.standing, ExportJob.since == _midnight(day)
    )
    job = session.scalars(query.with_for_update()).one_or_none()
    if job is None or job.deletion_began_at is not None or job.state not in _WRITTEN:
        return True
    if _count(session, tenant_id, log, day) > job.rows:
        session.execute(
            update(ExportJob)
            .where(ExportJob.id == job.id)
            .values(
                state="queued", created_at=now, due_at=now, done_until=job.since, parts=[], rows=0, bytes=0, failures=0
            )
        )
        return False
    if in_parts:
        job.deletion_began_at = now
        session.flush()
    return True


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


def _count(session: Session, tenant_id: TenantId, log: LogName, day: date) -> int:
    table, moment = SOURCES[log].table, SOURCES[log].table.c[SOURCES[log].moment]
    query = select(func.count()).where(
        table.c.tenant_id == tenant_id, moment >= _midnight(day), moment < _midnight(day + _DAY)
    )
    return session.scalars(query).one()


def _midnight(day: date) -> datetime:
    return datetime.combine(day, time(), UTC)
