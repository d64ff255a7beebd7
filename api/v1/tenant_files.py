"""Export of a tenant to one file, and import of a file as a new tenant. See docs/how-to/tenants.md."""

from typing import Annotated
from uuid import UUID

from fastapi import Depends, Path, Request
from fastapi.responses import FileResponse
from pydantic import Field

from api.access import Access, ChangesMsp, ReadsMsp
from api.application_state import get_signing
from api.json_input import accept_body
from api.routes import NounRouter
from api.v1.inputs import Input, Slug
from api.v1.jobs import Job, respond_accepted
from nac.core.access.tenant_lookup import find_tenant
from nac.core.jobs import service as jobs
from nac.kit.errors import NotFound
from nac.kit.permissions import Effect, Permission
from nac.onboarding.tenant_files import file_jobs, tables
from nac.onboarding.tenant_files.file_key import PASSPHRASE_CHARACTERS, require_passphrase
from nac.tenancy.tenants import service as tenants

# A file of 16 MB in base64.
_FILE_BODY = accept_body(most_bytes=24 * 1024 * 1024)
router = NounRouter(
    tag="tenant-files", description="Export of a tenant to a file, and import of a file as a new tenant."
)

_Tenant = Annotated[str, Path(examples=["hill-school"], description="Slug or id of the tenant.", max_length=63)]
_Job = Annotated[UUID, Path(description="Id of the job that created the file.")]
_ALL_PERMISSIONS = tables.export_permissions(logs=True, secrets=True)
_EXPORT_PERMISSIONS = {
    "always": tables.export_permissions(logs=False, secrets=False),
    "also": _ALL_PERMISSIONS,
}
_EXPORT_EFFECTS = (Effect.DISCLOSURE, Effect.SECRETS)
Exports = Annotated[Access, Depends(ChangesMsp(Permission.TENANT_DELETE, *_EXPORT_EFFECTS, **_EXPORT_PERMISSIONS))]
Downloads = Annotated[Access, Depends(ReadsMsp(Permission.TENANT_DELETE, *_EXPORT_EFFECTS, **_EXPORT_PERMISSIONS))]
Imports = Annotated[
    Access, Depends(ChangesMsp(Permission.TENANT_CREATE, Effect.TENANTS, always=tables.IMPORT_PERMISSIONS))
]


class TenantExport(Input):
    passphrase: str = Field(
        "",
        max_length=PASSPHRASE_CHARACTERS[1],
        description='Passphrase that encrypts secrets and keys in the file; "" to exclude secrets and keys.',
    )
    logs: bool = Field(False, description="Whether to include logs in the file.")


class TenantImport(Input):
    slug: Slug = Field(examples=["hill-school"], description="Slug of the new tenant, which is a DNS label.")
    file: str = Field(
        description="Content of the tenant file in base64.",
        max_length=file_jobs.MAX_JOB_FILE_BYTES * 4 // 3 + 4,
        examples=["UEsDBBQAAAAIAAAA"],
    )
    passphrase: str = Field(
        "",
        max_length=PASSPHRASE_CHARACTERS[1],
        description='Passphrase of the tenant file; "" if the file has no passphrase.',
    )
    place: Slug | None = Field(
        None,
        examples=["frankfurt"],
        description="Label of the cell for the new tenant; null for the cell with the most free port pairs.",
    )
    keeps_authorities: bool = Field(
        False,
        description=(
            "Whether the authorities keep their ids, which their certificates contain. Use true to move a tenant "
            "to another installation."
        ),
    )


@router.post("/msps/{msp}/tenants/{tenant}/export", status_code=202, operation_id="exportTenant")
def export_tenant(request: Request, access: Exports, tenant: _Tenant, body: TenantExport) -> Job:
    """Start a job that exports a tenant to a file.

    `getTenantFile` downloads the file. The file expires after some days. You need every permission to read the
    contents of the file. With a passphrase, the file includes secrets. A file with secrets requires `secret.reveal`
    and `authority.manage` too.
    """
    needs = tables.export_permissions(logs=body.logs, secrets=bool(body.passphrase))
    access.require(*needs)
    if body.passphrase:
        require_passphrase(body.passphrase)
    with access.change() as change:
        place = find_tenant(change.session, tenant)
        if place is None or place.msp_id != access.msp_id:
            raise tenants.TenantNotFound("The tenant does not exist.", place="tenant")
        slug = tenants.require_tenant(change.session, tenant_id=place.tenant_id).slug
        row = jobs.start_job(
            change.session,
            actor=access.actor,
            owner=access.owner,
            kind=file_jobs.EXPORT_JOB,
            title=f"Export of tenant {slug}",
            input={"tenant_id": str(place.tenant_id), **body.model_dump()},
            needs=needs,
            seal=get_signing(request).sealer.seal,
        )
        return change.answer(respond_accepted(access, change.response, row))


@router.get("/msps/{msp}/tenant-files/{job}", operation_id="getTenantFile", response_class=FileResponse)
def get_tenant_file(request: Request, access: Downloads, job: _Job) -> FileResponse:
    """Download a tenant file (zip).

    You need the same permissions as for the export.
    """
    with access.read() as session:
        row = jobs.require_job(session, owner=access.owner, job_id=job)
    if row.kind == file_jobs.EXPORT_JOB:
        access.require(*(_ALL_PERMISSIONS if row.needs is None else map(Permission, row.needs)))
    path = file_jobs.get_path(request.app.state.settings.export_dir, row.id)
    if row.kind != file_jobs.EXPORT_JOB or row.state != "done" or not path.exists():
        raise NotFound("The file does not exist or has expired.", place="job")
    return FileResponse(path, media_type="application/zip", filename=f"tenant-{row.id}.zip")


@router.post("/msps/{msp}/tenant-files", status_code=202, operation_id="importTenant", openapi_extra=_FILE_BODY)
def import_tenant(request: Request, access: Imports, body: TenantImport) -> Job:
    """Start a job that creates a tenant from a file.

    The job fails with a message if the file is invalid. You need every permission to create parts of a tenant, because
    a file can contain any part. You can import larger files only on the command line.
    """
    with access.change() as change:
        fields = body.model_dump() | {"msp_id": str(access.msp_id), "place": body.place or ""}
        row = jobs.start_job(
            change.session,
            actor=access.actor,
            owner=access.owner,
            kind=file_jobs.IMPORT_JOB,
            title=f"Import of tenant {body.slug}",
            input=fields,
            needs=tables.IMPORT_PERMISSIONS,
            seal=get_signing(request).sealer.seal,
        )
        return change.answer(respond_accepted(access, change.response, row))
