"""Files of other programs and our own, into a tenant and out of it."""

from collections.abc import Callable, Iterator
from itertools import chain
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, Field

from api.access import Access, ChangesTenant, ReadsTenant
from api.json_input import takes
from api.remedies import told_by_the_api
from api.v1.jobs import Job, accepted
from nac.accounts.effects import OF_ENDPOINTS, OF_NASES, OF_USERS
from nac.accounts.permissions import Permission
from nac.bulk_rows import OnExisting, RowAction
from nac.imports import csv_writer, jobs, service
from nac.imports.service import FormatName

router = APIRouter(prefix="/tenants/{tenant}", tags=["imports"])

Imports = Annotated[
    Access,
    Depends(
        ChangesTenant(
            Permission.ENDPOINT_MANAGE,
            *{*OF_ENDPOINTS, *OF_NASES, *OF_USERS},
            also=frozenset(service.PERMISSIONS.values()),
        )
    ),
]
ReadsEndpoints = Annotated[Access, Depends(ReadsTenant(Permission.ENDPOINT_READ))]
ReadsNases = Annotated[Access, Depends(ReadsTenant(Permission.NAS_READ))]
ReadsUsers = Annotated[Access, Depends(ReadsTenant(Permission.USER_READ))]
_CSV: dict[int | str, dict[str, Any]] = {200: {"content": {"text/csv": {"schema": {"type": "string"}}}}}
_ACCEPTED: dict[int | str, dict[str, Any]] = {202: {"model": Job, "description": "It is large: the job that does it."}}
_EXAMPLE = "mac,name,groups\n00:00:5e:00:53:01,Printer,printers\n"
# The file as it is.
_BODY = takes(most_bytes=16 * 1024 * 1024, media_type="application/octet-stream", example=_EXAMPLE)


class ImportedRow(BaseModel):
    line: int = Field(description="Number of the line, from 1.")
    noun: service.ImportNoun = Field(description="What the row is.")
    name: str = Field(description="What the row is about.")
    action: RowAction = Field(
        description="What becomes of it. same: it is as the file says already. keep: it is there, and stays as it is."
    )


class ImportNote(BaseModel):
    """What was left out, or is to be done by hand."""

    line: int = Field(description="Number of the line, from 1.")
    text: str = Field(description="The text.")


class ImportMistake(BaseModel):
    line: int = Field(description="Number of the line, from 1.")
    field: str = Field(description='The field; "" of the whole row.')
    detail: str = Field(description='What is so, in a sentence for people. "" where there is nothing to say.')
    remedy: str = Field(description='What to do about it; "" where there is nothing to do.')


class ImportReport(BaseModel):
    stored: bool = Field(description="Whether it was stored: not of a dry run.")
    counts: dict[str, Any] = Field(description="How many, by noun and action; and names of the groups that are made.")
    rows: list[ImportedRow] = Field(description="The first thousand rows.")
    rows_in_all: int = Field(description="How many rows, those that are not listed included.")
    notes: list[ImportNote] = Field(description="What was passed over, and why.")
    notes_in_all: int = Field(description="How many notes, those that are not listed included.")
    mistakes: list[ImportMistake] = Field(description="What has to be put right before anything is stored.")
    mistakes_in_all: int = Field(description="How many mistakes, those that are not listed included.")


class ImportOptions:
    """As a dependency: how the file is taken."""

    def __init__(
        self,
        existing: Annotated[OnExisting, Query(description="What becomes of those that are there already.")] = "refuse",
        make_groups: Annotated[bool, Query(description="Make the groups that there are not.")] = False,
        allow_random: Annotated[bool, Query(description="Approve addresses that devices made up, too.")] = False,
        chap: Annotated[bool, Query(description="Store passwords for CHAP, too.")] = False,
        mschap: Annotated[bool, Query(description="Store passwords for MS-CHAP, too.")] = False,
        wrong: Annotated[
            service.OnMistake,
            Query(description="Where lines are wrong: nothing is stored, or all but these, which are told"),
        ] = "refuse",
    ) -> None:
        self.taken = service.ImportOptions(existing, make_groups, allow_random, chap, mschap, wrong)


async def _body(request: Request) -> bytes:
    return await request.body()


@router.post("/imports", operation_id="importFile", responses=_ACCEPTED, openapi_extra=_BODY)
def import_file(
    access: Imports,
    format: Annotated[FormatName, Query(description="What the file is.")],  # noqa: A002 -- its name in the query
    options: Annotated[ImportOptions, Depends()],
    content: Annotated[bytes, Depends(_body)],
    dry_run: Annotated[bool, Query(description="Tell what would become of each line, and change nothing.")] = False,
) -> ImportReport | Job:
    """All of it, or nothing where a line is wrong, unless such lines are to be left out. A dry run of more than 1,000
    rows is a job as well, whose result is the report. What brings NASes or users takes their permission as well."""
    access.require(*(service.PERMISSIONS[noun] for noun in service.FORMATS[format].nouns))
    document = service.read_document(format, content)
    who: dict[str, Any] = {"tenant_id": access.tenant_id, "options": options.taken, "seal": access.sealer.seal}
    is_large = jobs.is_large(document, dry_run=dry_run)
    if dry_run and not is_large:
        with access.read() as session:
            return ImportReport(**told_by_the_api(jobs.preview_import(session, document=document, **who)))
    who["actor"] = access.actor
    with access.change() as change:
        if is_large:
            row = jobs.start_import(
                change.session, form=format, content=content, rows=len(document), dry_run=dry_run, **who
            )
            return change.answer(accepted(access, change.response, row))
        done = jobs.run_import(change.session, form=format, document=document, **who)
        return change.answer(ImportReport(**told_by_the_api(done)))


@router.get("/endpoints.csv", operation_id="exportEndpoints", responses=_CSV)
def export_endpoints(access: ReadsEndpoints) -> StreamingResponse:
    """Those that were decided about, as an import takes them."""
    return _csv(access, csv_writer.endpoints_csv, "endpoints")


@router.get("/nases.csv", operation_id="exportNases", responses=_CSV)
def export_nases(access: ReadsNases) -> StreamingResponse:
    """Without secrets."""
    return _csv(access, csv_writer.nases_csv, "nases")


@router.get("/users.csv", operation_id="exportUsers", responses=_CSV)
def export_users(access: ReadsUsers) -> StreamingResponse:
    """Without passwords."""
    return _csv(access, csv_writer.users_csv, "users")


def _csv(access: Access, write: Callable[..., Iterator[str]], name: str) -> StreamingResponse:
    stream = write(access.read, tenant_id=access.tenant_id)
    # What is wrong from the beginning is answered as such.
    first = next(stream)
    headers = {"Content-Disposition": f'attachment; filename="{name}.csv"', "Cache-Control": "no-store"}
    return StreamingResponse(chain([first], stream), media_type="text/csv", headers=headers)
