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
from nac.bulk_rows import OnExisting
from nac.imports import jobs

router = APIRouter(prefix="/tenants/{tenant}", tags=["bulk"])

MOST = 10_000
_Macs = Annotated[list[Annotated[str, Field(max_length=40)]], Field(min_length=1, max_length=MOST)]
ChangesEndpoints = Annotated[Access, Depends(ChangesTenant(Permission.ENDPOINT_MANAGE, *OF_ENDPOINTS))]
ChangesUsers = Annotated[Access, Depends(ChangesTenant(Permission.USER_MANAGE, *OF_USERS))]
ChangesNases = Annotated[Access, Depends(ChangesTenant(Permission.NAS_MANAGE, *OF_NASES))]
_ACCEPTED: dict[int | str, dict[str, Any]] = {202: {"model": Job, "description": "It is large: the job that does it."}}


class BulkResult(BaseModel):
    """How many rows were what; what does not apply is 0."""

    added: int = Field(0, description="How many were added.")
    changed: int = Field(0, description="How many were changed.")
    unchanged: int = Field(0, description="How many stay as they are.")
    kept: int = Field(0, description="How many were there, and stay as they are.")
    removed: int = Field(0, description="How many were removed.")
    blocked: int = Field(0, description="How many were blocked.")
    unblocked: int = Field(0, description="How many were unblocked.")


class BulkEndpoint(Input):
    mac: str = Field(max_length=40, examples=["00:00:5e:00:53:01"], description="MAC address, in any notation.")
    name: str = Field("", max_length=200, description="Name, for people.")
    status: Literal["active", "blocked"] = Field("active", description="What state it is in.")
    owner: str = Field("", max_length=200, description='Whose it is, in words. "": not said.')
    notes: str = Field("", max_length=2_000, description='Notes for people. "": none.')
    groups: GroupNames = Field(default=[], description="Names of groups.")
    valid_until: Moment | None = Field(None, description="Rejected after this moment; null: no end.")
    attributes: dict[str, str] = Field(
        default={}, max_length=100, description="Names and values of one's own choosing."
    )


class PutEndpoints(Input):
    """Approve (or block) these. One that is there becomes what its item says, or is a mistake, or stays as it is."""

    operation: Literal["put"] = Field(description="What is to be done.")
    items: Annotated[list[BulkEndpoint], BoundedMistakes] = Field(
        min_length=1, max_length=MOST, description="The rows."
    )
    existing: OnExisting = Field(
        "refuse",
        description="What becomes of those that are there: a mistake (refuse), made so (update), or left "
        "as they are (keep).",
    )
    make_groups: bool = Field(False, description="Makes groups that there are none of, in place of a mistake.")
    allow_random: bool = Field(
        False, description="Takes MAC addresses that devices made up, which change with the network."
    )


class ChangeEndpoints(Input):
    operation: Literal["delete", "block", "unblock"] = Field(description="What is to be done.")
    macs: _Macs = Field(description="MAC addresses, in any notation.")


class GroupEndpoints(Input):
    """Groups in place of those they are in, beside them, or out of these."""

    operation: Literal["set-groups", "join-groups", "leave-groups"] = Field(description="What is to be done.")
    macs: _Macs = Field(description="MAC addresses, in any notation.")
    groups: GroupNames = Field(description="Names of groups.")


class BulkUser(Input):
    """One that is there keeps what is left out; a new one has a password."""

    name: str = Field(max_length=253, examples=["ann"], description="Name, for people.")
    password: str | None = Field(
        None, max_length=128, description="8 characters to 128 octets; needed for a new user. Left out: stays as it is."
    )
    groups: GroupNames | None = Field(None, description="Names of groups.")
    valid_until: Moment | None = Field(None, description="Rejected after this moment; null: no end.")
    disabled: bool | None = Field(None, description="Rejected whatever the policy says.")


class PutUsers(Input):
    operation: Literal["put"] = Field(description="What is to be done.")
    items: Annotated[list[BulkUser], BoundedMistakes] = Field(min_length=1, max_length=MOST, description="The rows.")
    existing: OnExisting = Field(
        "refuse",
        description="What becomes of those that are there: a mistake (refuse), made so (update), or left "
        "as they are (keep).",
    )
    make_groups: bool = Field(False, description="Makes groups that there are none of, in place of a mistake.")
    chap: bool = Field(False, description="Stores passwords themselves too, sealed, for CHAP.")
    mschap: bool = Field(False, description="Stores NT hashes too, sealed, for MS-CHAP and PEAP.")


class PutNases(Input):
    """A NAS is there if one has the identifier, or else the address."""

    operation: Literal["put"] = Field(description="What is to be done.")
    items: Annotated[list[NasInput], BoundedMistakes] = Field(min_length=1, max_length=MOST, description="The rows.")
    existing: OnExisting = Field(
        "refuse",
        description="What becomes of those that are there: a mistake (refuse), made so (update), or left "
        "as they are (keep).",
    )


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
    groups = jobs.count_groups(given["items"]) // (jobs.MAX_INLINE_ROWS // jobs.MAX_INLINE_USERS)
    return _run(access, "users.put", given, len(body.items), groups=groups, at_once=jobs.MAX_INLINE_USERS)


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
    at_once: int = jobs.MAX_INLINE_ROWS,
) -> BulkResult | Job:
    who: dict[str, Any] = {"actor": access.actor, "tenant_id": access.tenant_id, "seal": access.sealer.seal}
    with access.change() as change, body_references():
        if rows + groups > at_once:
            row = jobs.start_bulk(change.session, **who, operation=operation, given=given, rows=rows)
            return change.answer(accepted(access, change.response, row))
        return change.answer(BulkResult(**jobs.run_bulk(change.session, **who, operation=operation, given=given)))
