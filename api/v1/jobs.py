"""What was too long for an answer: the same routes for the platform, for an MSP and for a tenant."""

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Annotated, Any, Literal, cast
from uuid import UUID

from fastapi import APIRouter, Depends, Query, Response
from pydantic import Field

from api.access import Access, Requires
from api.change import Change, Observed
from api.remedies import told_by_the_api
from api.v1.owners import of_every_owner
from api.v1.paging import OrderedPaging, Page, sorted_by
from nac.accounts.effects import Effect
from nac.accounts.permissions import Permission
from nac.jobs import service as jobs
from nac.jobs.kinds import JobKind
from nac.jobs.repository import ORDERS
from nac.models import Job as JobRow

router = APIRouter(tags=["jobs"])

# By which you read what a job was given, or what it found, where you could not start it.
_READ_BY: Mapping[str, Permission] = {
    Permission.ENDPOINT_MANAGE: Permission.ENDPOINT_READ,
    Permission.USER_MANAGE: Permission.USER_READ,
    Permission.NAS_MANAGE: Permission.NAS_READ,
    # It compares a draft with the log.
    Permission.POLICY_PUBLISH: Permission.LOG_READ,
}
# Of a problem that tells what the job found: names of devices and users, say.
_ALWAYS_TOLD = ("code", "title")

State = Literal["queued", "running", "done", "failed", "cancelled"]


class Job(Observed):
    id: UUID = Field(description="Id of the job.")
    kind: str = Field(
        examples=["endpoints.import"],
        description="What it does: imports.run, policies.replay, tenants.export, templates.roll-out ... "
        "The list is open.",
    )
    title: str = Field(description="What it is, in a few words.")
    state: State = Field(description="How far it is.")
    is_cancelled: bool = Field(description="Somebody wants it to end; it will, at its next step.")
    done: int = Field(description="How much of `total` is done.")
    total: int = Field(description="How much there is; 0 where that is not known.")
    result: dict[str, Any] | None = Field(description="What came of it; null until it is done.")
    problem: dict[str, Any] | None = Field(
        description="What went wrong, as problem details (RFC 9457); of one that is queued, why it is tried again."
    )
    asked_by: str = Field(description="Who asked for it, such as token:setup.")
    request_id: str | None = Field(description="X-Request-Id of the request that asked for it.")
    created_at: datetime = Field(description="When it was made.")
    started_at: datetime | None = Field(description="When it started; null while it waits.")
    ended_at: datetime | None = Field(description="When it ended; null while it has not.")

    def observed(self) -> set[str]:
        """Until it ends the worker begins it, brings it on and tries it again."""
        is_open = self.state in ("queued", "running")
        return {"state", "done", "total", "problem", "started_at"} if is_open else set()


def shown(row: JobRow, held: Collection[Permission]) -> Job:
    """As a caller with these permissions sees it."""
    result, problem = row.result, row.problem
    if not _may_read(row, held):
        result = None
        problem = problem and {name: problem[name] for name in _ALWAYS_TOLD if name in problem}
    return Job(
        id=row.id,
        kind=row.kind,
        title=row.title,
        state=cast(State, row.state),
        is_cancelled=row.is_cancelled,
        done=row.total if row.state == "done" and row.total else row.done,
        total=row.total,
        result=result and told_by_the_api(result),
        problem=problem and told_by_the_api(problem),
        asked_by=row.asked_by,
        request_id=row.request_id,
        created_at=row.created_at,
        started_at=row.started_at,
        ended_at=row.ended_at,
    )


def _may_read(row: JobRow, held: Collection[Permission]) -> bool:
    return all(
        need in held or (_READ_BY[need] in held if need in _READ_BY else not need.endswith(".read"))
        for need in row.needs or ()
    )


def accepted(access: Access, response: Response, row: JobRow) -> Job:
    """To be answered with 202 by a route that began a job: where it is."""
    place = access.asked.request.url.path.split("/")[:4]
    response.status_code = 202
    response.headers["Location"] = "/".join((*place[: 3 if place[2] == "platform" else 4], "jobs", str(row.id)))
    return shown(row, access.held)


def _routes(prefix: str, noun: str, reads: Requires, manages: Requires) -> None:
    read, manage = Depends(reads), Depends(manages)

    @router.get(f"{prefix}/jobs", operation_id=f"list{noun}Jobs")
    def list_jobs(
        access: Annotated[Access, read],
        paging: Annotated[OrderedPaging, Depends(sorted_by(ORDERS))],
        state: Annotated[list[State] | None, Query()] = None,
        kind: JobKind | None = None,
    ) -> Page[Job]:
        """Those that ended are forgotten after 30 days. What they found is shown as `get` shows it."""
        with access.read() as session:
            found = jobs.search_jobs(session, owner=access.owner, states=state or (), kind=kind or "", span=paging.span)
            return paging.ordered(found.rows, lambda row: shown(row, access.held), searched=found.searched)

    @router.get(f"{prefix}/jobs/{{job_id}}", operation_id=f"get{noun}Job")
    def get_job(access: Annotated[Access, read], job_id: UUID) -> Job:
        """How far it is, and what it found. What it found takes the permissions that starting it took, or those to
        read the same things."""
        with access.read() as session:
            return access.shown(shown(jobs.require_job(session, owner=access.owner, job_id=job_id), access.held))

    @router.post(f"{prefix}/jobs/{{job_id}}/cancel", operation_id=f"cancel{noun}Job")
    def cancel_job(access: Annotated[Access, manage], job_id: UUID) -> Job:
        """One that runs ends at its next step."""
        with access.change() as change:
            _require_match(change, access, job_id)
            row = jobs.cancel_job(change.session, actor=access.actor, owner=access.owner, job_id=job_id)
            return change.answer(shown(row, access.held))

    @router.post(f"{prefix}/jobs/{{job_id}}/retry", operation_id=f"retry{noun}Job")
    def retry_job(access: Annotated[Access, manage], job_id: UUID) -> Job:
        """One that failed, from where it was. That takes the permissions that it took to begin it as well."""
        with access.change() as change:
            _require_match(change, access, job_id)
            row = jobs.retry_job(
                change.session, actor=access.actor, owner=access.owner, job_id=job_id, held=access.held
            )
            return change.answer(shown(row, access.held))


def _require_match(change: Change, access: Access, job_id: UUID) -> None:
    row = jobs.require_job(change.session, owner=access.owner, job_id=job_id, lock=True)
    change.require_match(shown(row, access.held))


for each in of_every_owner(Permission.JOB_READ, Permission.JOB_MANAGE, Effect.WORK):
    reads = type(each.reads)(Permission.JOB_READ, Effect.DISCLOSURE, also=frozenset(_READ_BY.values()))
    _routes(each.prefix, each.noun, reads, each.manages)
