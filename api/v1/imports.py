"""Imports and exports of endpoints, NASes and users."""

from collections.abc import Callable, Iterator
from itertools import chain
from typing import Annotated, Any

from fastapi import Depends, Query, Request
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, Field

from api.access import Access, ChangesTenant, ReadsTenant
from api.json_input import accept_body
from api.routes import NounRouter
from api.v1.jobs import Job, respond_accepted
from nac.kit.bulk_rows import OnExisting, RowAction
from nac.kit.permissions import ENDPOINT_EFFECTS, NAS_EFFECTS, USER_EFFECTS, Permission
from nac.onboarding.imports import csv_writer, jobs, service
from nac.onboarding.imports.service import FormatName

router = NounRouter(prefix="/tenants/{tenant}", tag="imports", description="Imports of files from other programs.")

Imports = Annotated[
    Access,
    Depends(
        ChangesTenant(
            Permission.ENDPOINT_MANAGE,
            *{*ENDPOINT_EFFECTS, *NAS_EFFECTS, *USER_EFFECTS},
            also=frozenset(service.PERMISSIONS.values()),
        )
    ),
]
ReadsEndpoints = Annotated[Access, Depends(ReadsTenant(Permission.ENDPOINT_READ))]
ReadsNases = Annotated[Access, Depends(ReadsTenant(Permission.NAS_READ))]
ReadsUsers = Annotated[Access, Depends(ReadsTenant(Permission.USER_READ))]
_CSV_RESPONSE: dict[int | str, dict[str, Any]] = {200: {"content": {"text/csv": {"schema": {"type": "string"}}}}}
_JOB_RESPONSE: dict[int | str, dict[str, Any]] = {
    202: {"model": Job, "description": "The request is large, so Admit runs the request as this job."}
}
_CSV_EXAMPLE = "mac,name,groups\n00:00:5e:00:53:01,Printer,printers\n"
# The body is the file as the other program wrote it.
_IMPORT_BODY = accept_body(most_bytes=16 * 1024 * 1024, media_type="application/octet-stream", example=_CSV_EXAMPLE)


class ImportedRow(BaseModel):
    line: int = Field(description="Line number of the row in the file, from 1.")
    noun: service.ImportNoun = Field(description="Kind of item in the row.")
    name: str = Field(description="Name of the item in the row.")
    action: RowAction = Field(
        description=(
            "Action of the import for the row. If `same`, the existing item already has the values of the row. If"
            " `keep`, the existing item stays unchanged."
        )
    )


class ImportNote(BaseModel):
    """A note about skipped content or a manual step."""

    line: int = Field(description="Line number in the file, from 1.")
    text: str = Field(description="Text of the note.")


class ImportMistake(BaseModel):
    line: int = Field(description="Line number of the error in the file, from 1.")
    field: str = Field(examples=["mac"], description='Name of the field with the error; "" for the whole row.')
    detail: str = Field(description='Explanation of the error in one sentence; "" if none.')
    remedy: str = Field(description='What to do about the error; "" if nothing.')


class ImportReport(BaseModel):
    stored: bool = Field(description="Whether the rows were stored; false for a dry run.")
    counts: dict[str, Any] = Field(description="Number of rows by kind of item and action, and names of new groups.")
    rows: list[ImportedRow] = Field(description="First 1,000 rows of the file, with the action for each row.")
    rows_in_all: int = Field(description="Total number of rows, including rows that `rows` omits.")
    notes: list[ImportNote] = Field(description="Notes about content that the import skips.")
    notes_in_all: int = Field(description="Total number of notes, including notes that `notes` omits.")
    mistakes: list[ImportMistake] = Field(
        description="Errors in the file. Correct these errors before you import the file."
    )
    mistakes_in_all: int = Field(description="Total number of errors, including errors that `mistakes` omits.")


class ImportOptions:
    """Query parameters with the options of an import, as a FastAPI dependency."""

    def __init__(
        self,
        existing: Annotated[OnExisting, Query(description="Handling of items that exist already.")] = "refuse",
        make_groups: Annotated[bool, Query(description="Whether to create groups that do not exist.")] = False,
        allow_random: Annotated[bool, Query(description="Whether to approve random MAC addresses too.")] = False,
        chap: Annotated[bool, Query(description="Whether to store passwords for CHAP too.")] = False,
        mschap: Annotated[bool, Query(description="Whether to store passwords for MS-CHAP too.")] = False,
        wrong: Annotated[
            service.OnMistake,
            Query(
                description="Handling of invalid lines: store nothing (refuse), or skip and report the invalid lines "
                "(leave-out)."
            ),
        ] = "refuse",
    ) -> None:
        self.taken = service.ImportOptions(existing, make_groups, allow_random, chap, mschap, wrong)


async def _read_body(request: Request) -> bytes:
    return await request.body()


@router.post("/imports", operation_id="importFile", responses=_JOB_RESPONSE, openapi_extra=_IMPORT_BODY)
def import_file(
    access: Imports,
    format: Annotated[FormatName, Query(description="Format of the file to import.")],  # noqa: A002 -- a query name
    options: Annotated[ImportOptions, Depends()],
    content: Annotated[bytes, Depends(_read_body)],
    dry_run: Annotated[
        bool, Query(description="Whether to only report the result for each line, without changing anything.")
    ] = False,
) -> ImportReport | Job:
    """Import a file with endpoints, users or NASes.

    If a line is invalid, Admit stores nothing, unless `wrong` is `leave-out`.

    A dry run of more than 1,000 rows becomes a job, whose result is the report. A file with NASes or users also
    requires the permissions to change NASes or users.
    """
    access.require(*(service.PERMISSIONS[noun] for noun in service.FORMATS[format].nouns))
    document = service.read_document(format, content)
    who: dict[str, Any] = {"tenant_id": access.tenant_id, "options": options.taken, "seal": access.sealer.seal}
    is_large = jobs.is_large(document, dry_run=dry_run)
    if dry_run and not is_large:
        with access.read() as session:
            return ImportReport(**jobs.preview_import(session, document=document, **who))
    who["actor"] = access.actor
    with access.change() as change:
        if is_large:
            row = jobs.start_import(
                change.session, form=format, content=content, rows=len(document), dry_run=dry_run, **who
            )
            return change.answer(respond_accepted(access, change.response, row))
        done = jobs.run_import(change.session, form=format, document=document, **who)
        return change.answer(ImportReport(**done))


@router.get("/endpoints.csv", operation_id="exportEndpoints", responses=_CSV_RESPONSE)
def export_endpoints(access: ReadsEndpoints) -> StreamingResponse:
    """Export endpoints as CSV in the format of imports.

    Discovered endpoints are not included.
    """
    return _stream_csv(access, csv_writer.endpoints_csv, "endpoints")


@router.get("/nases.csv", operation_id="exportNases", responses=_CSV_RESPONSE)
def export_nases(access: ReadsNases) -> StreamingResponse:
    """Export NASes as CSV, without secrets."""
    return _stream_csv(access, csv_writer.nases_csv, "nases")


@router.get("/users.csv", operation_id="exportUsers", responses=_CSV_RESPONSE)
def export_users(access: ReadsUsers) -> StreamingResponse:
    """Export users as CSV, without passwords."""
    return _stream_csv(access, csv_writer.users_csv, "users")


def _stream_csv(access: Access, write: Callable[..., Iterator[str]], name: str) -> StreamingResponse:
    stream = write(access.read, tenant_id=access.tenant_id)
    # Reads the first lines now, so that an error can still change the status of the response.
    first = next(stream)
    headers = {"Content-Disposition": f'attachment; filename="{name}.csv"', "Cache-Control": "no-store"}
    return StreamingResponse(chain([first], stream), media_type="text/csv", headers=headers)
