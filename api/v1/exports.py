"""Logs written into files."""

from datetime import datetime
from pathlib import Path as FilePath
from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Path, Query, Request
from fastapi.responses import FileResponse
from pydantic import BaseModel, Field

from api.access import Access, ChangesTenant, ReadsTenant
from api.change import Change, Observed
from api.v1.inputs import Input
from api.v1.keys import RowId
from api.v1.moments import PastMoment
from api.v1.paging import OrderedPaging, Page, sorted_by
from nac.accounts.effects import Effect
from nac.accounts.permissions import Permission
from nac.clock import utc_now
from nac.exports import service as exports
from nac.exports.files import MANIFEST, Folder
from nac.exports.repository import ORDERS
from nac.models import ExportJob
from nac.models.export import ExportFormat, ExportState

router = APIRouter(prefix="/tenants/{tenant}/exports", tags=["exports"])

# By which each log is read.
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
_File = Annotated[str, Path(max_length=200, description="Of `files`, or manifest.json.")]


class ExportFile(BaseModel):
    file: str = Field(description="Name of the file.")
    since: datetime = Field(description="From when on.")
    until: datetime = Field(description="Until when; the moment itself is not included.")
    rows: int = Field(description="How many rows.")
    bytes: int = Field(description="Size in bytes.")
    sha256: str = Field(description="SHA-256, in hex.")


class Export(Observed):
    id: int = Field(description="Id; it stays.")
    log: str = Field(description="Which log.")
    format: ExportFormat = Field(description="The form of the files.")
    since: datetime = Field(description="The first moment that is in it.")
    until: datetime = Field(description="Until when; the moment itself is not included.")
    state: ExportState = Field(description="How far it is.")
    percent: int = Field(description="How far it is, 0 to 100.")
    rows: int = Field(description="How many rows.")
    bytes: int = Field(description="Size in bytes.")
    files: list[ExportFile] = Field(description="The files.")
    sha256: str = Field(description="SHA-256 (hex) of manifest.json, which has those of the files.")
    error: str = Field(description='Why it failed; "" where it did not.')
    failures: int = Field(description="How many attempts failed.")
    before_deletion: bool = Field(description="Whether it is of a day that is about to be deleted.")
    asked_by: str = Field(description="Who asked for it, such as token:setup.")
    asked_at: datetime = Field(description="When it was asked for.")
    started_at: datetime | None = Field(description="When it started; null while it waits.")
    ended_at: datetime | None = Field(description="When it ended; null while it has not.")
    rows_gone_at: datetime | None = Field(description="Of one before deletion: since when its files are the only copy.")

    def observed(self) -> set[str]:
        """Until it ends the worker begins it, brings it on and tries it again."""
        brought = {"state", "percent", "rows", "bytes", "files", "sha256", "error", "failures", "started_at"}
        return brought if self.state in ("queued", "running") else set()


class ExportInput(Input):
    log: Literal["auth", "accounting", "sessions", "usage"] = Field(description="Which log.")
    since: PastMoment = Field(description="From when on.")
    until: PastMoment | None = Field(None, description="The end, not included; null: now.")
    format: ExportFormat = Field("csv", description="The form of the files.")


@router.get("", operation_id="listExports")
def list_exports(
    access: Reads,
    paging: Annotated[OrderedPaging, Depends(sorted_by(ORDERS))],
    state: Annotated[list[ExportState] | None, Query()] = None,
) -> Page[Export]:
    """Those that were asked for, and those of what is deleted."""
    with access.read() as session:
        rows = exports.list_jobs(
            session,
            tenant_id=access.tenant_id,
            states=tuple(state or ()),
            span=paging.span,
        )
        return paging.ordered(rows, _export)


@router.post("", status_code=202, operation_id="startExport")
def start_export(request: Request, access: Starts, body: ExportInput) -> Export:
    """The worker writes it; it tells how far it is."""
    with access.change() as change:
        job = exports.start(
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
        return change.answer(_export(job))


@router.get("/{export}", operation_id="getExport")
def get_export(access: Reads, export: RowId) -> Export:
    with access.read() as session:
        return access.shown(_export(exports.get_job(session, tenant_id=access.tenant_id, job_id=export)))


@router.get(
    "/{export}/files/{file}",
    operation_id="downloadExportFile",
    response_class=FileResponse,
    responses={
        200: {"content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}},
        206: {"description": "The part that `Range` asks for (RFC 9110 14)."},
    },
)
def download_export_file(request: Request, access: Downloads, export: RowId, file: _File) -> FileResponse:
    """As it is, or the ranges of it that are asked for: a download that broke off goes on. That takes the permission
    to read the log as well."""
    with access.read() as session:
        job = exports.get_job(session, tenant_id=access.tenant_id, job_id=export)
        access.require(_READ_BY[job.log])
        path = _path(request, job, file)
    return FileResponse(path, media_type="application/octet-stream", filename=file, stat_result=path.stat())


@router.post("/{export}/cancel", operation_id="cancelExport")
def cancel_export(access: Changes, export: RowId) -> Export:
    """End it before it is done; its files go."""
    with access.change() as change:
        _require_match(change, access, export)
        job = exports.cancel(change.session, actor=access.actor, tenant_id=access.tenant_id, job_id=export)
        return change.answer(_export(job))


@router.post("/{export}/retry", status_code=202, operation_id="retryExport")
def retry_export(access: Changes, export: RowId) -> Export:
    """Go on at once with one that failed."""
    with access.change() as change:
        _require_match(change, access, export)
        job = exports.retry(change.session, actor=access.actor, tenant_id=access.tenant_id, job_id=export)
        return change.answer(_export(job))


@router.delete("/{export}", operation_id="deleteExport")
def delete_export(access: Changes, export: RowId) -> Export:
    """Do not keep its files until their time is over; the row stays."""
    with access.change() as change:
        _require_match(change, access, export)
        job = exports.remove(change.session, actor=access.actor, tenant_id=access.tenant_id, job_id=export)
        return change.answer(_export(job))


def _require_match(change: Change, access: Access, job_id: int) -> None:
    job = exports.get_job(change.session, tenant_id=access.tenant_id, job_id=job_id, lock=True)
    change.require_match(_export(job))


def _path(request: Request, job: ExportJob, file: str) -> FilePath:
    """Raises ExportFileNotFound. Only what the job has written is reached, whatever `file` says."""
    if job.state == "done" and file in (MANIFEST, *(part["file"] for part in job.parts)):
        path = Folder(request.app.state.settings.export_dir).of_job(job.tenant_id, job.id) / file
        if path.is_file():
            return path
    raise exports.ExportFileNotFound(
        f"There is no file {file!r} of export {job.id}, which is {job.state}.",
        place="file",
        remedy="Files of an export that is done are listed by it.",
    )


def _export(job: ExportJob) -> Export:
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
            "asked_by": job.asked_by,
            "asked_at": job.created_at,
            "started_at": job.started_at,
            "ended_at": job.ended_at,
            "rows_gone_at": job.rows_gone_at,
        }
    )
