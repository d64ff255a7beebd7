"""Service for exports of logs to files. The worker writes the files, and records the progress in the job's row."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from nac.core.audit import service as audit
from nac.kit.advice import Advice, NextStep
from nac.kit.clock import utc_now
from nac.kit.db import lock_quota
from nac.kit.db.sort_orders import PageSpan, SortOrders
from nac.kit.errors import Conflict, InvalidInput, MistakeCollector, NotFound
from nac.kit.ids import TenantId
from nac.logs.log_tables import EXPORTED_LOGS
from nac.models import ExportJob, RetentionSetting
from nac.models.export import EXPORT_FORMATS, EXPORT_STATES

ORDERS = SortOrders({"id": (ExportJob.id,)}, default="-id")
# Actor of required exports, which retention creates before it deletes rows.
RETENTION_ACTOR = "system:retention"


@dataclass(frozen=True, slots=True)
class KeptExports:
    """Number and total bytes of exports that have files, or will have files."""

    jobs: int
    bytes: int


def list_page(session: Session, tenant_id: TenantId, *, states: Sequence[str], span: PageSpan) -> Sequence[ExportJob]:
    query = span.of(select(ExportJob).where(ExportJob.tenant_id == tenant_id))
    if states:
        query = query.where(ExportJob.state.in_(states))
    return session.scalars(query).all()


def get(session: Session, tenant_id: TenantId, job_id: int) -> ExportJob | None:
    query = select(ExportJob).where(ExportJob.tenant_id == tenant_id, ExportJob.id == job_id)
    return session.scalar(query.execution_options(populate_existing=True))


def lock_job(session: Session, tenant_id: TenantId, job_id: int) -> ExportJob | None:
    query = select(ExportJob).where(ExportJob.tenant_id == tenant_id, ExportJob.id == job_id)
    return session.scalar(query.with_for_update().execution_options(populate_existing=True))


def count_waiting(session: Session, tenant_id: TenantId) -> int:
    """Count the tenant's pending exports that users started."""
    query = select(func.count()).where(
        ExportJob.tenant_id == tenant_id, ExportJob.state.in_(("queued", "running")), ~ExportJob.standing
    )
    return session.scalars(query).one()


def sum_kept(session: Session, tenant_id: TenantId) -> KeptExports:
    """Return number and total bytes of the tenant's exports that users started."""
    query = select(func.count(), func.coalesce(func.sum(ExportJob.bytes), 0)).where(
        ExportJob.tenant_id == tenant_id,
        ExportJob.state.in_(("queued", "running", "done", "failed")),
        ExportJob.requested_by != RETENTION_ACTOR,
    )
    jobs, size = session.execute(query).one()
    return KeptExports(jobs, int(size))


def has_export_order(session: Session, tenant_id: TenantId, log: str) -> bool:
    """Return whether the tenant requires an export of the log before retention deletes rows."""
    query = select(RetentionSetting.export_format).where(
        RetentionSetting.tenant_id == tenant_id, RetentionSetting.log == log
    )
    return session.scalar(query) is not None


MAX_DAYS = 3_660
# Maximum number of pending exports, and of exports with files, per tenant. Required exports do not count.
MAX_WAITING = 20
MAX_KEPT = 200
MAKE_ROOM_REMEDY = Advice("Delete an export", "deleteExport")
_LIST_REMEDY = Advice("List exports", "listExports")


class ExportNotFound(NotFound):
    """The export does not exist."""


class ExportFileNotFound(NotFound):
    """The file of the export does not exist."""


def start_export(
    session: Session,
    *,
    actor: str,
    tenant_id: TenantId,
    log: str,
    since: datetime,
    until: datetime,
    format: str,  # noqa: A002 -- as it is called everywhere
    most_bytes: int = 0,
) -> ExportJob:
    """Start an export of the rows from `since` (included) to `until` (excluded); both times have time zones.

    `until` can be at most tomorrow. `most_bytes` is the maximum total size of the tenant's exports; 0 for no limit.
    Raises InvalidInput, and Conflict if too many exports are pending or stored.
    """
    mistakes = MistakeCollector()
    with mistakes.noted():
        _require_one_of(log, EXPORTED_LOGS, "log")
    with mistakes.noted():
        _require_one_of(format, EXPORT_FORMATS, "format")
    until = min(until, utc_now() + timedelta(days=1))
    with mistakes.noted():
        if not since < until:
            raise InvalidInput(
                "The end of the export is not after its start.", place="until", remedy="Set a later end."
            )
        if until - since > timedelta(days=MAX_DAYS):
            raise InvalidInput(
                f"The export covers more than {MAX_DAYS} days.", place="since", remedy="Set a later start."
            )
    mistakes.refuse()
    lock_quota(session, "exports", tenant_id)
    if count_waiting(session, tenant_id) >= MAX_WAITING:
        raise Conflict(
            f"The tenant already has {MAX_WAITING} pending exports, the maximum.",
            remedy="Wait until an export ends, or cancel an export.",
        )
    kept = sum_kept(session, tenant_id)
    if kept.jobs >= MAX_KEPT:
        raise Conflict(f"The tenant already has files of {MAX_KEPT} exports, the maximum.", remedy=MAKE_ROOM_REMEDY)
    if most_bytes and kept.bytes >= most_bytes:
        raise Conflict(
            f"The tenant's exports have {kept.bytes} bytes; the maximum is {most_bytes}.", remedy=MAKE_ROOM_REMEDY
        )
    job = ExportJob(
        tenant_id=tenant_id, log=log, since=since, until=until, done_until=since, format=format, requested_by=actor
    )
    session.add(job)
    session.flush()
    session.refresh(job)
    after = {"log": log, "since": since.isoformat(), "until": until.isoformat(), "format": format}
    _audit(session, actor, job, "start", after)
    return job


def _require_one_of(value: str, allowed: Sequence[str], place: str) -> None:
    if value not in allowed:
        raise InvalidInput(f"Invalid {place} {value!r}.", place=place, remedy=f"Use one of: {', '.join(allowed)}.")


def list_exports(
    session: Session,
    *,
    tenant_id: TenantId,
    states: Sequence[str] = (),
    span: PageSpan | None = None,
) -> Sequence[ExportJob]:
    """List exports, newest first by default; `states` filters by state."""
    for state in states:
        _require_one_of(state, EXPORT_STATES, "state")
    return list_page(session, tenant_id, states=states, span=span or ORDERS.first())


def require_export(session: Session, *, tenant_id: TenantId, job_id: int, lock: bool = False) -> ExportJob:
    """Return the export `job_id`. Raises ExportNotFound."""
    job = (lock_job if lock else get)(session, tenant_id, job_id)
    if job is None:
        raise ExportNotFound(f"Export {job_id} does not exist.", place="export", remedy=_LIST_REMEDY)
    return job


def cancel_export(session: Session, *, actor: str, tenant_id: TenantId, job_id: int) -> ExportJob:
    """Cancel an export; the worker deletes the files of the export.

    Raises ExportNotFound. Raises Conflict if the export has ended, or if retention waits for the export before it
    deletes rows.
    """
    job = require_export(session, tenant_id=tenant_id, job_id=job_id, lock=True)
    if job.standing and has_export_order(session, tenant_id, job.log):
        raise Conflict(
            f"Retention needs export {job_id} before the deletion of the exported day.",
            place="export",
            remedy=Advice("Turn off required exports", NextStep("updateRetention", {"export": "none"})),
        )
    if job.state not in ("queued", "running"):
        raise Conflict(f"Export {job_id} is already {job.state}.", place="export")
    # The tenant no longer requires this export. If it requires exports again, a new job exports the day.
    job.state, job.standing, job.ended_at = "cancelled", False, utc_now()
    session.flush()
    _audit(session, actor, job, "cancel", {"state": job.state})
    return job


def delete_export(session: Session, *, actor: str, tenant_id: TenantId, job_id: int) -> ExportJob:
    """Mark the files of an ended export for deletion. The worker deletes the files within an hour.

    Raises ExportNotFound. Raises Conflict if the export has no files, or if retention created the export.
    """
    job = require_export(session, tenant_id=tenant_id, job_id=job_id, lock=True)
    if job.state not in ("done", "failed"):
        raise Conflict(f"Export {job_id} is {job.state} and has no files to delete.", place="export")
    if job.requested_by == RETENTION_ACTOR:
        raise Conflict(
            f"Export {job_id} is required: the files can be the only copy of rows that retention deletes.",
            place="export",
            remedy="Admit deletes the files automatically after their retention.",
        )
    job.state = "pruned" if job.state == "done" else "cancelled"
    session.flush()
    _audit(session, actor, job, "remove", {"state": job.state})
    return job


def retry_export(session: Session, *, actor: str, tenant_id: TenantId, job_id: int) -> ExportJob:
    """Retry a failed export, or start the next attempt of a pending export now. Raises ExportNotFound.

    Raises Conflict unless the export has failed, or waits for another attempt after a failure.
    """
    job = require_export(session, tenant_id=tenant_id, job_id=job_id, lock=True)
    if job.state != "failed" and not (job.state == "queued" and job.failures):
        raise Conflict(f"Export {job_id} is {job.state} and cannot be retried.", place="export")
    job.state, job.ended_at, job.failures, job.due_at = "queued", None, 0, utc_now()
    session.flush()
    _audit(session, actor, job, "retry", {"state": job.state})
    return job


def _audit(session: Session, actor: str, job: ExportJob, verb: str, after: dict[str, str]) -> None:
    audit.append(
        session, actor=actor, action=f"export.{verb}", target=str(job.id), tenant_id=job.tenant_id, after=after
    )
