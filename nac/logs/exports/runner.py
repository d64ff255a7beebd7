"""Runs export jobs. Writes a file per day or part of a day, so that an interrupted job continues after its last file.

Requires the database role admit_worker. A worker reserves a job for LEASE, and renews the reservation. If the worker
dies, another worker continues the job after LEASE.
"""

import hashlib
import logging
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

from sqlalchemy import Engine, func, select, text, update
from sqlalchemy.orm import Session

from nac.kit.clock import utc_now
from nac.kit.db import PlatformScope, TenantScope, driver_connection, session_scope
from nac.kit.errors import Unavailable
from nac.kit.ids import TenantId
from nac.logs.exports import export_folder, service, standing_exports
from nac.logs.exports.columns import LOG_SOURCES, ExportRange
from nac.logs.exports.export_folder import ExportFolder
from nac.logs.exports.file_writer import FILE_SUFFIXES, WrittenFile, write_rows
from nac.logs.log_tables import LogName
from nac.models import ExportJob, LogSize, Tenant
from nac.models.export import ExportFormat

_log = logging.getLogger(__name__)
LEASE = timedelta(minutes=2)
_RENEW_SECONDS = 20
# Time after the end of a job until its row is deleted.
JOB_RETENTION = timedelta(days=400)
# Approximate maximum number of rows per file. A day with more rows has several files.
FILE_ROWS = 500_000
_FILES_PER_DAY = (1, 2, 4, 8, 24, 96, 288)
# Delays before the first six retries of a failed export. Later, Admit retries only required exports.
_RETRY_AFTER = tuple(timedelta(minutes=minutes) for minutes in (1, 5, 30, 120, 360, 720))
_DAY = timedelta(days=1)
_WAITING_SQL = text("SELECT tenant_id, id FROM waiting_export()")


@dataclass(frozen=True, slots=True)
class ExportLimits:
    # Disk space that exports must leave free.
    least_free_bytes: int
    # Time in seconds after which the worker pauses the job and can run another job.
    seconds: float
    # Maximum total bytes of a tenant's exports, not counting required exports; 0 for no limit.
    tenant_max_bytes: int = 0


class ExportFileDamaged(OSError):
    """A file of the export is missing or changed."""


class _QuotaExceeded(Exception):
    """The tenant's exports have reached their maximum size."""


class _JobLost(Exception):
    """A user cancelled the job, or another worker runs the job."""


def run_next_export(folder: ExportFolder, limits: ExportLimits, *, engine: Engine | None = None) -> int | None:
    """Run the next due export job for a limited time. Returns the id of the job, or None if no job is due."""
    with session_scope(PlatformScope(), engine=engine) as session:
        waiting = session.execute(_WAITING_SQL).one_or_none()
    if waiting is None:
        return None
    tenant_id, job_id = TenantId(waiting.tenant_id), int(waiting.id)
    run = _ExportRun(tenant_id, job_id, folder, limits, engine)
    try:
        run.run()
    except _JobLost:
        _log.info("export %d of tenant %s no longer belongs to this worker", job_id, tenant_id)
    except _QuotaExceeded as exc:
        run.fail(str(exc), for_good=True)
    except Unavailable:
        # Without the database, the failure cannot be recorded. A worker continues the job after LEASE.
        raise
    except Exception as exc:  # house-rule: a fault of one export must not stop the others
        message = _error_text(exc)
        _log.warning(
            "export %d of tenant %s failed: %s", job_id, tenant_id, message, exc_info=not isinstance(exc, OSError)
        )
        run.fail(message)
    return job_id


class _ExportRun:
    def __init__(
        self, tenant_id: TenantId, job_id: int, folder: ExportFolder, limits: ExportLimits, engine: Engine | None
    ) -> None:
        self._tenant_id = tenant_id
        self._job_id = job_id
        self._folder = folder
        self._limits = limits
        self._engine = engine
        self._renewed = time.monotonic()

    def run(self) -> None:
        deadline = time.monotonic() + self._limits.seconds
        with self._scope() as session:
            job = service.lock_job(session, self._tenant_id, self._job_id)
            if job is None or job.state not in ("queued", "running") or job.due_at > utc_now():
                raise _JobLost
            job.state, job.due_at, job.started_at = "running", utc_now() + LEASE, job.started_at or utc_now()
            if job.standing and job.rows_before is None:
                standing_exports.record_horizon(session, job)
        path = self._folder.make(self._tenant_id, self._job_id)
        while job.done_until < job.until:
            job = self._write(job, path)
            if time.monotonic() > deadline and job.done_until < job.until:
                self._change(job, state="queued", due_at=utc_now())
                return
        if (broken := export_folder.find_damaged_part(path, job.parts)) is not None:
            self._rewind(job, broken)
            raise ExportFileDamaged(
                f"file {job.parts[broken]['file']} was changed or deleted; it will be written again"
            )
        manifest = export_folder.write_manifest(path, job.parts, _build_manifest(job))
        digest = hashlib.sha256(manifest.encode()).hexdigest()
        self._change(job, state="done", ended_at=utc_now(), sha256=digest, error="")

    def _write(self, job: ExportJob, path: Path) -> ExportJob:
        """Write the job's next file, and record it in the job's row."""
        log, since = cast("LogName", job.log), job.done_until.astimezone(UTC)
        with self._scope() as session:
            self._require_quota(session, job)
            until = min(job.until, _next_file_end(since, _estimate_rows(session, self._tenant_id, log, since)))
            written = write_rows(
                driver_connection(session),
                LOG_SOURCES[log],
                stretch=ExportRange(self._tenant_id, since, until, job.rows_before),
                format=cast("ExportFormat", job.format),
                path=path / f"{log}-{since:%Y%m%dT%H%M%S%fZ}{FILE_SUFFIXES[cast('ExportFormat', job.format)]}",
                least_free_bytes=self._limits.least_free_bytes,
                look=self._renew,
            )
        with self._scope() as session:
            locked = service.lock_job(session, self._tenant_id, self._job_id)
            if locked is None or locked.state != "running" or locked.done_until != job.done_until:
                if written is not None:
                    written.path.unlink(missing_ok=True)
                raise _JobLost
            if written is not None:
                locked.parts = [*locked.parts, _move_into_place(written, since, until)]
                locked.rows, locked.bytes = locked.rows + written.rows, locked.bytes + written.bytes
            locked.done_until, locked.due_at, locked.error = until, utc_now() + LEASE, ""
        return locked

    def _require_quota(self, session: Session, job: ExportJob) -> None:
        most = self._limits.tenant_max_bytes
        if most and not job.standing and service.sum_kept(session, self._tenant_id).bytes >= most:
            raise _QuotaExceeded(f"The tenant's exports have reached the maximum of {most} bytes. Delete an export.")

    def _rewind(self, job: ExportJob, broken: int) -> None:
        """Remove the part with the index `broken` and all later parts, which the worker then writes again."""
        whole = job.parts[:broken]
        self._change(
            job,
            parts=whole,
            rows=sum(part["rows"] for part in whole),
            bytes=sum(part["bytes"] for part in whole),
            done_until=datetime.fromisoformat(job.parts[broken]["since"]),
        )

    def _renew(self) -> None:
        if time.monotonic() - self._renewed > _RENEW_SECONDS:
            self._renewed = time.monotonic()
            with self._scope() as session:
                query = (
                    update(ExportJob)
                    .where(ExportJob.id == self._job_id, ExportJob.state == "running")
                    .values(due_at=utc_now() + LEASE)
                    .returning(ExportJob.id)
                )
                if session.scalar(query) is None:
                    raise _JobLost

    def _change(self, job: ExportJob, **values: object) -> None:
        with self._scope() as session:
            locked = service.lock_job(session, self._tenant_id, self._job_id)
            if locked is None or locked.state != "running" or locked.done_until != job.done_until:
                raise _JobLost
            for name, value in values.items():
                setattr(locked, name, value)

    def fail(self, message: str, *, for_good: bool = False) -> None:
        with self._scope() as session:
            job = service.lock_job(session, self._tenant_id, self._job_id)
            if job is None or job.state != "running":
                return
            job.error = message[:500]
            if job.standing or (job.failures < len(_RETRY_AFTER) and not for_good):
                job.state = "queued"
                job.due_at = utc_now() + _RETRY_AFTER[min(job.failures, len(_RETRY_AFTER) - 1)]
            else:
                job.state, job.ended_at = "failed", utc_now()
            job.failures += 1

    def _scope(self) -> Any:  # noqa: ANN401 -- the context manager of session_scope
        return session_scope(TenantScope(self._tenant_id), engine=self._engine)


def _error_text(exc: Exception) -> str:
    if isinstance(exc, OSError) and exc.strerror:
        return exc.strerror
    return (str(exc) or type(exc).__name__).splitlines()[0]


def _estimate_rows(session: Session, tenant_id: TenantId, log: LogName, at: datetime) -> int:
    """Return the approximate number of rows on the day of `at`. If the day was not measured yet, counts the rows."""
    query = select(LogSize.rows).where(LogSize.tenant_id == tenant_id, LogSize.log == log, LogSize.day == at.date())
    measured = session.scalar(query)
    if measured is not None:
        return measured
    source = LOG_SOURCES[log]
    midnight, moment = at.replace(hour=0, minute=0, second=0, microsecond=0), source.table.c[source.moment]
    rows = (
        select(moment)
        .where(source.table.c.tenant_id == tenant_id, moment >= midnight, moment < midnight + _DAY)
        .limit(FILE_ROWS * _FILES_PER_DAY[-1])
    )
    return session.scalars(select(func.count()).select_from(rows.subquery())).one()


def _next_file_end(since: datetime, rows: int) -> datetime:
    """Return the end time of a file that begins at `since`; `rows` is the number of rows on that day."""
    midnight = since.replace(hour=0, minute=0, second=0, microsecond=0)
    count = next((n for n in _FILES_PER_DAY if rows <= n * FILE_ROWS), _FILES_PER_DAY[-1])
    stretch = _DAY / count
    return midnight + ((since - midnight) // stretch + 1) * stretch


def _move_into_place(written: WrittenFile, since: datetime, until: datetime) -> dict[str, object]:
    # This worker has locked the job's row, so no other worker replaces the file.
    name = written.path.name.removeprefix(".").rpartition(".")[0]
    path = written.path.replace(written.path.with_name(name))
    # Flush the folder before the job's row records the file.
    export_folder.sync_to_disk(path.parent)
    return {
        "file": name,
        "since": since.isoformat(),
        "until": until.isoformat(),
        "rows": written.rows,
        "bytes": written.bytes,
        "sha256": written.sha256,
    }


def _build_manifest(job: ExportJob) -> dict[str, object]:
    columns = [{"name": column.name, "kind": column.kind} for column in LOG_SOURCES[cast("LogName", job.log)].columns]
    return {
        "tenant": str(job.tenant_id),
        "log": job.log,
        "format": job.format,
        "since": job.since.astimezone(UTC).isoformat(),
        "until": job.until.astimezone(UTC).isoformat(),
        "rows": job.rows,
        "bytes": job.bytes,
        "columns": columns,
        "files": job.parts,
    }


def prune_exports(folder: ExportFolder, *, kept: timedelta, now: datetime, engine: Engine | None = None) -> int:
    """Delete expired files of exports. Returns the number of deleted folders.

    Files expire when their job was cancelled or deleted, or `kept` after the end of the job. Files also expire when the
    tenant no longer exists. Also deletes the rows of jobs that ended more than JOB_RETENTION ago.
    """
    with session_scope(PlatformScope(), engine=engine) as session:
        tenants = session.scalars(select(Tenant.id)).all()
    for tenant_id in tenants:
        with session_scope(TenantScope(tenant_id), engine=engine) as session:
            standing_exports.delete_old_jobs(session, tenant_id, before=now - JOB_RETENTION)
    removed = 0
    for tenant_id in folder.tenants():
        with session_scope(PlatformScope(), engine=engine) as session:
            known = session.scalar(select(Tenant.id).where(Tenant.id == tenant_id))
        if known is None:
            folder.remove(tenant_id)
            removed += 1
            continue
        for job_id in folder.jobs(tenant_id):
            with session_scope(TenantScope(tenant_id), engine=engine) as session:
                job = service.lock_job(session, tenant_id, job_id)
                if job is not None and (job.state in ("queued", "running") or not _is_expired(job, now - kept)):
                    continue
                if job is not None and job.state == "done":
                    job.state = "pruned"
                elif job is not None:
                    # The files of a failed job are deleted, so a retry starts from the beginning.
                    job.done_until, job.parts, job.rows, job.bytes = job.since, [], 0, 0
            # Delete the files only after the job's row no longer lists them.
            folder.remove(tenant_id, job_id)
            removed += 1
    return removed


def _is_expired(job: ExportJob, before: datetime) -> bool:
    if job.state in ("cancelled", "pruned"):
        return True
    # When the exported rows are deleted, a required export is their only copy. So the retention of its files begins at
    # the deletion.
    since = job.rows_gone_at if job.standing else job.rows_gone_at or job.ended_at
    return since is not None and since < before
