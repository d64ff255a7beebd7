"""Exports of logs to files."""

from datetime import datetime
from pathlib import Path as FilePath
from typing import Annotated, Literal

from fastapi import Depends, Path, Query, Request
from fastapi.responses import FileResponse
from pydantic import BaseModel, Field

from api.access import Access, ChangesTenant, ReadsTenant
from api.change import Change, ObservedModel
from api.routes import NounRouter
from api.v1.inputs import Input, body_example
from api.v1.list_parameters import RowNumber
from api.v1.paging import OrderedPaging, Page, require_paging
from api.v1.timestamps import PastMoment
from nac.kit.clock import utc_now
from nac.kit.permissions import Effect, Permission
from nac.logs.exports import service as exports
from nac.logs.exports.export_folder import MANIFEST, ExportFolder
from nac.logs.exports.service import ORDERS
from nac.models import ExportJob
from nac.models.export import ExportFormat, ExportState

router = NounRouter(prefix="/tenants/{tenant}/exports", tag="exports", description="Exports of logs to files.")

# Permission to read each log.
_READ_BY = {
    "auth": Permission.LOG_READ,
    "accounting": Permission.LOG_READ,
    "sessions": Permission.SESSION_READ,
    "usage": Permission.USAGE_READ,
}
Reads = Annotated[Access, Depends(ReadsTenant(Permission.EXPORT_READ))]
Downloads = Annotated[
    Access, Depends(ReadsTenant(Permission.EXPORT_READ, Effect.DISCLOSURE, also=frozenset(_READ_BY.values())))
]
Starts = Annotated[Access, Depends(ChangesTenant(Permission.EXPORT_MANAGE, Effect.RECORDS))]
Changes = Annotated[Access, Depends(ChangesTenant(Permission.EXPORT_MANAGE, Effect.WORK, Effect.ERASURE))]
_File = Annotated[
    str,
    Path(
        max_length=200,
        examples=["auth-2027-01-30.parquet"],
        description="Name of a file in the field `files` of the export, or manifest.json.",
    ),
]
_Export = Annotated[RowNumber, Path(description="Id of the export.")]


class ExportFile(BaseModel):
    file: str = Field(examples=["auth-2027-01-30.parquet"], description="Name of the file.")
    since: datetime = Field(description="Start of the period of the log rows in the file.")
    until: datetime = Field(description="End of the period of the log rows in the file, exclusive.")
    rows: int = Field(description="Number of rows in the file.")
    bytes: int = Field(description="Size of the file in bytes.")
    sha256: str = Field(description="SHA-256 of the file, in hex.")


class Export(ObservedModel):
    id: int = Field(description="Permanent id of the export.")
    log: str = Field(description="Name of the exported log.")
    format: ExportFormat = Field(description="File format of the export.")
    since: datetime = Field(description="Start of the period of the exported log rows.")
    until: datetime = Field(description="End of the period of the exported log rows, exclusive.")
    state: ExportState = Field(description="State of the export.")
    percent: int = Field(description="Progress of the export in percent, 0 to 100.")
    rows: int = Field(description="Number of exported rows.")
    bytes: int = Field(description="Size of all files of the export in bytes.")
    files: list[ExportFile] = Field(description="Files of the export.")
    sha256: str = Field(
        description="SHA-256 of manifest.json in hex. The manifest contains the SHA-256 of each file of the export."
    )
    error: str = Field(description='Error of the export; "" if none.')
    failures: int = Field(description="Number of failed attempts of the export.")
    before_deletion: bool = Field(description="Whether the export saves a day of a log before Admit deletes that day.")
    requested_by: str = Field(description="Actor who started the export, such as token:setup.")
    requested_at: datetime = Field(description="Time when the export was requested.")
    started_at: datetime | None = Field(description="Time when the export started; null while the export waits.")
    ended_at: datetime | None = Field(description="Time when the export ended; null if the export has not ended.")
    rows_gone_at: datetime | None = Field(
        description=(
            "Time when Admit deleted the log rows that this export saved before the deletion; null in all other cases."
        )
    )

    def observed_fields(self) -> set[str]:
        """Return the fields that the worker updates until the export ends."""
        brought = {"state", "percent", "rows", "bytes", "files", "sha256", "error", "failures", "started_at"}
        return brought if self.state in ("queued", "running") else set()


class ExportInput(Input):
    model_config = body_example(
        {"log": "auth", "since": "2026-01-31T08:00:00Z", "until": "2026-02-01T08:00:00Z", "format": "csv"}
    )

    log: Literal["auth", "accounting", "sessions", "usage"] = Field(description="Name of the log to export.")
    since: PastMoment = Field(description="Start of the period of the log rows to export.")
    until: PastMoment | None = Field(
        None, description="End of the period of the log rows to export, exclusive; null for now."
    )
    format: ExportFormat = Field("csv", description="File format of the export.")


@router.get("", operation_id="listExports")
def list_exports(
    access: Reads,
    paging: Annotated[OrderedPaging, Depends(require_paging(ORDERS))],
    state: Annotated[list[ExportState] | None, Query(description="State of the exports to list.")] = None,
) -> Page[Export]:
    """List exports, including exports that Admit starts before it deletes log rows."""
    with access.read() as session:
        rows = exports.list_exports(
            session,
            tenant_id=access.tenant_id,
            states=tuple(state or ()),
            span=paging.span,
        )
        return paging.ordered(rows, _build_export)


@router.post("", status_code=202, operation_id="startExport")
def start_export(request: Request, access: Starts, body: ExportInput) -> Export:
    """Start an export of a log.

    The worker writes the files. The field `percent` shows the progress.
    """
    with access.change() as change:
        job = exports.start_export(
            change.session,
            actor=access.actor,
            tenant_id=access.tenant_id,
            log=body.log,
            since=body.since,
            until=body.until or utc_now(),
            format=body.format,
            most_bytes=request.app.state.settings.export_tenant_max_bytes,
        )
        change.located(job.id)
        return change.answer(_build_export(job))


@router.get("/{export}", operation_id="getExport")
def get_export(access: Reads, export: _Export) -> Export:
    """Get an export, with the progress of the export."""
    with access.read() as session:
        return access.shown(_build_export(exports.require_export(session, tenant_id=access.tenant_id, job_id=export)))


@router.get(
    "/{export}/files/{file}",
    operation_id="downloadExportFile",
    response_class=FileResponse,
    responses={
        200: {"content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}},
        206: {"description": "Requested range (RFC 9110 14)."},
    },
)
def download_export_file(request: Request, access: Downloads, export: _Export, file: _File) -> FileResponse:
    """Download a file of an export.

    `Range` is supported, so you can resume a download. Requires the permission to read the log too.
    """
    with access.read() as session:
        job = exports.require_export(session, tenant_id=access.tenant_id, job_id=export)
        access.require(_READ_BY[job.log])
        path = _require_file_path(request, job, file)
    return FileResponse(path, media_type="application/octet-stream", filename=file, stat_result=path.stat())


@router.post("/{export}/cancel", operation_id="cancelExport")
def cancel_export(access: Changes, export: _Export) -> Export:
    """Cancel an export and delete the files of the export."""
    with access.change() as change:
        _require_match(change, access, export)
        job = exports.cancel_export(change.session, actor=access.actor, tenant_id=access.tenant_id, job_id=export)
        return change.answer(_build_export(job))


@router.post("/{export}/retry", status_code=202, operation_id="retryExport")
def retry_export(access: Changes, export: _Export) -> Export:
    """Retry a failed export immediately."""
    with access.change() as change:
        _require_match(change, access, export)
        job = exports.retry_export(change.session, actor=access.actor, tenant_id=access.tenant_id, job_id=export)
        return change.answer(_build_export(job))


@router.delete("/{export}", operation_id="deleteExport")
def delete_export(access: Changes, export: _Export) -> Export:
    """Delete the files of an export before the files expire.

    The list of exports still contains the export.
    """
    with access.change() as change:
        _require_match(change, access, export)
        job = exports.delete_export(change.session, actor=access.actor, tenant_id=access.tenant_id, job_id=export)
        return change.answer(_build_export(job))


def _require_match(change: Change, access: Access, job_id: int) -> None:
    job = exports.require_export(change.session, tenant_id=access.tenant_id, job_id=job_id, lock=True)
    change.require_match(_build_export(job))


def _require_file_path(request: Request, job: ExportJob, file: str) -> FilePath:
    """Return the path of a file that the job wrote. Raises ExportFileNotFound for any other `file`."""
    if job.state == "done" and file in (MANIFEST, *(part["file"] for part in job.parts)):
        path = ExportFolder(request.app.state.settings.export_dir).job_path(job.tenant_id, job.id) / file
        if path.is_file():
            return path
    raise exports.ExportFileNotFound(
        f"Export {job.id} ({job.state}) has no file {file!r}.",
        place="file",
        remedy="Use a name from `files` of a completed export.",
    )


def _build_export(job: ExportJob) -> Export:
    whole = (job.until - job.since).total_seconds()
    return Export.model_validate(
        {
            "id": job.id,
            "log": job.log,
            "format": job.format,
            "since": job.since,
            "until": job.until,
            "state": job.state,
            "percent": round(100 * (job.done_until - job.since).total_seconds() / whole),
            "rows": job.rows,
            "bytes": job.bytes,
            "files": job.parts,
            "sha256": job.sha256,
            "error": job.error,
            "failures": job.failures,
            "before_deletion": job.standing,
            "requested_by": job.asked_by,
            "requested_at": job.created_at,
            "started_at": job.started_at,
            "ended_at": job.ended_at,
            "rows_gone_at": job.rows_gone_at,
        }
    )
