"""Background jobs of the platform, an MSP or a tenant."""

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Annotated, Any, Literal, cast
from uuid import UUID

from fastapi import Depends, Path, Query, Response
from pydantic import Field

from api.access import Access, RequiresPermission
from api.change import Change, ObservedModel
from api.routes import NounRouter
from api.v1.owner_routes import list_owner_routes
from api.v1.paging import OrderedPaging, Page, require_paging
from nac.core.jobs import service as jobs
from nac.core.jobs.service import ORDERS, JobKind
from nac.kit.permissions import Effect, Permission
from nac.models import Job as JobRow

router = NounRouter(tag="jobs", description="Background jobs: progress, result and retry.")

# For each permission to start a job: the permission that suffices to read the input and result of the job.
_READ_BY: Mapping[str, Permission] = {
    Permission.ENDPOINT_MANAGE: Permission.ENDPOINT_READ,
    Permission.USER_MANAGE: Permission.USER_READ,
    Permission.NAS_MANAGE: Permission.NAS_READ,
    # The result contains rows of the log, because the job compares a draft with the log.
    Permission.POLICY_PUBLISH: Permission.LOG_READ,
}
# The other fields of a problem can contain results, such as names of devices and users.
_PUBLIC_PROBLEM_FIELDS = ("code", "title")

State = Literal["queued", "running", "done", "failed", "cancelled"]
_JobId = Annotated[UUID, Path(description="Id of the job.")]


class Job(ObservedModel):
    id: UUID = Field(description="Id of the job.")
    kind: str = Field(
        examples=["import.run"],
        description=(
            "Kind of job, such as import.run, policies.replay, tenants.export or templates.roll-out. Later "
            "versions of Admit can add kinds."
        ),
    )
    title: str = Field(description="Title of the job.")
    state: State = Field(description="State of the job.")
    is_cancelled: bool = Field(description="Whether the job is cancelled. A running job stops at the next step.")
    done: int = Field(description="Amount of work that the job has completed, out of `total`.")
    total: int = Field(description="Total amount of work of the job; 0 if unknown.")
    result: dict[str, Any] | None = Field(description="Result of the job; null until the job is done.")
    problem: dict[str, Any] | None = Field(
        description="Problem details (RFC 9457) of the job's failure; for a queued job, the reason of the retry."
    )
    requested_by: str = Field(description="Actor who started the job, such as token:setup.")
    request_id: str | None = Field(
        examples=["5f3a9c0e1b7d2468"], description="X-Request-Id of the request that started the job."
    )
    created_at: datetime = Field(description="Time when the job was created.")
    started_at: datetime | None = Field(description="Time when the job started; null while the job waits.")
    ended_at: datetime | None = Field(description="Time when the job ended; null if the job has not ended.")

    def observed_fields(self) -> set[str]:
        """Return the fields that the worker updates until the job ends."""
        is_open = self.state in ("queued", "running")
        return {"state", "done", "total", "problem", "started_at"} if is_open else set()


def build_job(row: JobRow, held: Collection[Permission]) -> Job:
    """Return the job without the parts that the caller may not read. `held` are the caller's permissions."""
    result, problem = row.result, row.problem
    if not _may_read(row, held):
        result = None
        problem = problem and {name: problem[name] for name in _PUBLIC_PROBLEM_FIELDS if name in problem}
    return Job(
        id=row.id,
        kind=row.kind,
        title=row.title,
        state=cast(State, row.state),
        is_cancelled=row.is_cancelled,
        done=row.total if row.state == "done" and row.total else row.done,
        total=row.total,
        result=result,
        problem=problem,
        requested_by=row.asked_by,
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


def respond_accepted(access: Access, response: Response, row: JobRow) -> Job:
    """Set status 202 and the location of a new job, and return the job."""
    place = access.asked.request.url.path.split("/")[:4]
    response.status_code = 202
    response.headers["Location"] = "/".join((*place[: 3 if place[2] == "platform" else 4], "jobs", str(row.id)))
    return build_job(row, access.held)


def _add_routes(prefix: str, noun: str, reads: RequiresPermission, manages: RequiresPermission) -> None:
    read, manage = Depends(reads), Depends(manages)

    @router.get(f"{prefix}/jobs", operation_id=f"list{noun}Jobs")
    def list_jobs(
        access: Annotated[Access, read],
        paging: Annotated[OrderedPaging, Depends(require_paging(ORDERS))],
        state: Annotated[list[State] | None, Query(description="State of the jobs to list.")] = None,
        kind: Annotated[JobKind | None, Query(description="Kind of the jobs to list.")] = None,
    ) -> Page[Job]:
        """List background jobs.

        Admit deletes a job 30 days after the job ends. The list contains the result of a job only if you have the
        permissions for this result.
        """
        with access.read() as session:
            page = jobs.search_jobs(session, owner=access.owner, states=state or (), kind=kind or "", span=paging.span)
            return paging.ordered(page.rows, lambda row: build_job(row, access.held), searched=page.searched)

    @router.get(f"{prefix}/jobs/{{job_id}}", operation_id=f"get{noun}Job")
    def get_job(access: Annotated[Access, read], job_id: _JobId) -> Job:
        """Get a background job, with progress and result.

        The result requires the permissions to start the job, or to read the same data.
        """
        with access.read() as session:
            return access.shown(build_job(jobs.require_job(session, owner=access.owner, job_id=job_id), access.held))

    @router.post(f"{prefix}/jobs/{{job_id}}/cancel", operation_id=f"cancel{noun}Job")
    def cancel_job(access: Annotated[Access, manage], job_id: _JobId) -> Job:
        """Cancel a background job.

        A running job stops at the next step.
        """
        with access.change() as change:
            _require_match(change, access, job_id)
            row = jobs.cancel_job(change.session, actor=access.actor, owner=access.owner, job_id=job_id)
            return change.answer(build_job(row, access.held))

    @router.post(f"{prefix}/jobs/{{job_id}}/retry", operation_id=f"retry{noun}Job")
    def retry_job(access: Annotated[Access, manage], job_id: _JobId) -> Job:
        """Retry a failed background job from the step that failed.

        Requires the permissions to start the job too.
        """
        with access.change() as change:
            _require_match(change, access, job_id)
            row = jobs.retry_job(
                change.session, actor=access.actor, owner=access.owner, job_id=job_id, held=access.held
            )
            return change.answer(build_job(row, access.held))


def _require_match(change: Change, access: Access, job_id: UUID) -> None:
    row = jobs.require_job(change.session, owner=access.owner, job_id=job_id, lock=True)
    change.require_match(build_job(row, access.held))


for each in list_owner_routes(Permission.JOB_READ, Permission.JOB_MANAGE, Effect.WORK):
    reads = type(each.reads)(Permission.JOB_READ, Effect.DISCLOSURE, also=frozenset(_READ_BY.values()))
    _add_routes(each.prefix, each.noun, reads, each.manages)
