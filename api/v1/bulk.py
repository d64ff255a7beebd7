"""Many at once: all of them or none. What is large becomes a job, and is answered with 202 and where that is."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Body, Depends
from pydantic import BaseModel, Field

from api.access import Access, ChangesTenant
from api.json_input import takes
from api.v1.inputs import BoundedMistakes, GroupNames, Input, body_references
from api.v1.jobs import Job, accepted
from api.v1.moments import Moment
from api.v1.nases import NasInput
from nac.accounts.effects import OF_ENDPOINTS, OF_NASES, OF_USERS
from nac.accounts.permissions import Permission
from nac.imports import jobs
from nac.rows import Existing

router = APIRouter(prefix="/tenants/{tenant}", tags=["bulk"])

MOST = 10_000
_Macs = Annotated[list[Annotated[str, Field(max_length=40)]], Field(min_length=1, max_length=MOST)]
ChangesEndpoints = Annotated[Access, Depends(ChangesTenant(Permission.ENDPOINT_MANAGE, *OF_ENDPOINTS))]
ChangesUsers = Annotated[Access, Depends(ChangesTenant(Permission.USER_MANAGE, *OF_USERS))]
ChangesNases = Annotated[Access, Depends(ChangesTenant(Permission.NAS_MANAGE, *OF_NASES))]
_ACCEPTED: dict[int | str, dict[str, Any]] = {202: {"model": Job, "description": "It is large: the job that does it."}}


class BulkResult(BaseModel):
    """How many rows were what; what does not apply is 0."""

    added: int = 0
    changed: int = 0
    # They were as asked for already.
    unchanged: int = 0
    # They were there, and `existing` is keep.
    kept: int = 0
    removed: int = 0
    blocked: int = 0
    unblocked: int = 0


class BulkEndpoint(Input):
    mac: str = Field(max_length=40, examples=["00:00:5e:00:53:01"])
    name: str = Field("", max_length=200)
    status: Literal["active", "blocked"] = "active"
    owner: str = Field("", max_length=200)
    notes: str = Field("", max_length=2_000)
    groups: GroupNames = Field(default=[])
    valid_until: Moment | None = None
    attributes: dict[str, str] = Field(default={}, max_length=100)


class PutEndpoints(Input):
    """Approve (or block) these. One that is there becomes what its item says, or is a mistake, or stays as it is."""

    operation: Literal["put"]
    items: Annotated[list[BulkEndpoint], BoundedMistakes] = Field(min_length=1, max_length=MOST)
    existing: Existing = "refuse"
    make_groups: bool = False
    allow_random: bool = False


class ChangeEndpoints(Input):
    operation: Literal["delete", "block", "unblock"]
    macs: _Macs


class GroupEndpoints(Input):
    """Groups in place of those they are in, beside them, or out of these."""

    operation: Literal["set-groups", "join-groups", "leave-groups"]
    macs: _Macs
    groups: GroupNames


class BulkUser(Input):
    """One that is there keeps what is left out; a new one has a password."""

    name: str = Field(max_length=253, examples=["ann"])
    password: str | None = Field(None, max_length=128)
    groups: GroupNames | None = None
    valid_until: Moment | None = None
    disabled: bool | None = None


class PutUsers(Input):
    operation: Literal["put"]
    items: Annotated[list[BulkUser], BoundedMistakes] = Field(min_length=1, max_length=MOST)
    existing: Existing = "refuse"
    make_groups: bool = False
    # What passwords are stored for, besides PAP.
    chap: bool = False
    mschap: bool = False


class PutNases(Input):
    """A NAS is there if one has the identifier, or else the address."""

    operation: Literal["put"]
    items: Annotated[list[NasInput], BoundedMistakes] = Field(min_length=1, max_length=MOST)
    existing: Existing = "refuse"


# 10,000 endpoints with all that can be said of them are some 5 MB.
_LARGE = takes(most_bytes=16 * 1024 * 1024)
_OfEndpoints = Annotated[PutEndpoints | ChangeEndpoints | GroupEndpoints, Body(discriminator="operation")]


@router.post("/endpoints/bulk", operation_id="updateEndpointsInBulk", responses=_ACCEPTED, openapi_extra=_LARGE)
def update_endpoints(access: ChangesEndpoints, body: _OfEndpoints) -> BulkResult | Job:
    """Up to 10,000 in one call. Every row that is wrong is told, with its place; nothing is stored then."""
    if isinstance(body, PutEndpoints):
        given = _given(body)
        return _run(access, "endpoints.put", given, len(body.items), groups=jobs.count_groups(given["items"]))
    return _run(access, f"endpoints.{body.operation}", _given(body), len(body.macs))


@router.post("/users/bulk", operation_id="updateUsersInBulk", responses=_ACCEPTED, openapi_extra=_LARGE)
def update_users(access: ChangesUsers, body: PutUsers) -> BulkResult | Job:
    """As of endpoints. Each password takes some 20 ms to hash: of more than 50 users it is a job."""
    given = _given(body)
    # Groups cost far less than passwords do.
    groups = jobs.count_groups(given["items"]) // (jobs.MOST_AT_ONCE // jobs.MOST_USERS_AT_ONCE)
    return _run(access, "users.put", given, len(body.items), groups=groups, at_once=jobs.MOST_USERS_AT_ONCE)


@router.post("/nases/bulk", operation_id="updateNasesInBulk", responses=_ACCEPTED, openapi_extra=_LARGE)
def update_nases(access: ChangesNases, body: PutNases) -> BulkResult | Job:
    return _run(access, "nases.put", _given(body), len(body.items))


def _given(body: BaseModel) -> dict[str, Any]:
    """What was said, and nothing of what was left out: a row keeps that."""
    return body.model_dump(mode="json", exclude_unset=True)


def _run(
    access: Access,
    operation: str,
    given: Mapping[str, Any],
    rows: int,
    *,
    groups: int = 0,
    at_once: int = jobs.MOST_AT_ONCE,
) -> BulkResult | Job:
    who: dict[str, Any] = {"actor": access.actor, "tenant_id": access.tenant_id, "seal": access.sealer.seal}
    with access.change() as change, body_references():
        if rows + groups > at_once:
            row = jobs.start_bulk(change.session, **who, operation=operation, given=given, rows=rows)
            return change.answer(accepted(access, change.response, row))
        return change.answer(BulkResult(**jobs.run_bulk(change.session, **who, operation=operation, given=given)))
