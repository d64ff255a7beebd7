"""Bulk changes: Admit stores all rows or none. A large request becomes a job (202)."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from fastapi import Body, Depends
from pydantic import BaseModel, Field

from api.access import Access, ChangesTenant
from api.json_input import accept_body
from api.routes import NounRouter
from api.v1.inputs import BoundedMistakes, GroupNames, Input, body_example, body_examples, body_references
from api.v1.jobs import Job, respond_accepted
from api.v1.nases import NasInput
from api.v1.timestamps import Moment
from nac.kit.bulk_rows import OnExisting
from nac.kit.permissions import ENDPOINT_EFFECTS, NAS_EFFECTS, USER_EFFECTS, Permission
from nac.onboarding.imports import jobs

router = NounRouter(
    prefix="/tenants/{tenant}",
    tag="bulk",
    description="Changes of many endpoints, users or NASes. Admit makes all changes or none.",
)

MAX_ROWS = 10_000
_Macs = Annotated[list[Annotated[str, Field(max_length=40)]], Field(min_length=1, max_length=MAX_ROWS)]
ChangesEndpoints = Annotated[Access, Depends(ChangesTenant(Permission.ENDPOINT_MANAGE, *ENDPOINT_EFFECTS))]
ChangesUsers = Annotated[Access, Depends(ChangesTenant(Permission.USER_MANAGE, *USER_EFFECTS))]
ChangesNases = Annotated[Access, Depends(ChangesTenant(Permission.NAS_MANAGE, *NAS_EFFECTS))]
_ACCEPTED: dict[int | str, dict[str, Any]] = {
    202: {"model": Job, "description": "The request is large, so Admit runs the request as this job."}
}


class BulkResult(BaseModel):
    """Number of changed rows by result. A result that cannot occur in the request has 0."""

    added: int = Field(0, description="Number of endpoints, users or NASes that the request created.")
    changed: int = Field(0, description="Number of endpoints, users or NASes that the request changed.")
    unchanged: int = Field(0, description="Number of endpoints, users or NASes that already had the requested values.")
    kept: int = Field(
        0,
        description="Number of existing endpoints, users or NASes that stay unchanged because `existing` is `keep`.",
    )
    removed: int = Field(0, description="Number of endpoints that the request deleted.")
    blocked: int = Field(0, description="Number of endpoints that the request blocked.")
    unblocked: int = Field(0, description="Number of endpoints that the request unblocked.")


class BulkEndpoint(Input):
    mac: str = Field(
        max_length=40, examples=["00:00:5e:00:53:01"], description="MAC address of the endpoint, in any notation."
    )
    name: str = Field("", max_length=200, description="Name of the endpoint.")
    status: Literal["active", "blocked"] = Field("active", description="Status of the endpoint.")
    owner: str = Field("", max_length=200, description='Owner of the endpoint, as text; "" if none.')
    notes: str = Field("", max_length=2_000, description='Notes about the endpoint; "" if none.')
    groups: GroupNames = Field(default=[], description="Names of the groups of the endpoint.")
    valid_until: Moment | None = Field(None, description="Time from which Admit rejects the device; null for no limit.")
    attributes: dict[str, str] = Field(
        default={}, max_length=100, description="Custom attributes of the endpoint, by name."
    )


class PutEndpoints(Input):
    """Endpoints to approve or block. `existing` defines the handling of endpoints that exist already."""

    model_config = body_examples(
        (
            "put",
            "Approve or update",
            {
                "operation": "put",
                "existing": "update",
                "make_groups": True,
                "items": [{"mac": "00:00:5e:00:53:01", "name": "Printer, 2nd floor", "groups": ["printers"]}],
            },
        )
    )

    operation: Literal["put"] = Field(description="Operation: create or update the endpoints.")
    items: Annotated[list[BulkEndpoint], BoundedMistakes] = Field(
        min_length=1, max_length=MAX_ROWS, description="Endpoints to create or update."
    )
    existing: OnExisting = Field(
        "refuse",
        description=(
            "Handling of endpoints that exist already: report an error (refuse), update the endpoint (update), or "
            "leave the endpoint unchanged (keep)."
        ),
    )
    make_groups: bool = Field(
        False, description="Whether to create groups that do not exist, instead of reporting an error."
    )
    allow_random: bool = Field(
        False, description="Whether to accept random MAC addresses, which a device can change for each network."
    )


class ChangeEndpoints(Input):
    model_config = body_examples(("block", "Block", {"operation": "block", "macs": ["00:00:5e:00:53:01"]}))

    operation: Literal["delete", "block", "unblock"] = Field(description="Operation on the endpoints.")
    macs: _Macs = Field(description="MAC addresses of the endpoints, in any notation.")


class GroupEndpoints(Input):
    """Endpoints whose groups the request replaces, extends or reduces."""

    model_config = body_examples(
        (
            "join-groups",
            "Add to groups",
            {"operation": "join-groups", "macs": ["00:00:5e:00:53:01"], "groups": ["printers"]},
        )
    )

    operation: Literal["set-groups", "join-groups", "leave-groups"] = Field(
        description="Operation on the groups of the endpoints."
    )
    macs: _Macs = Field(description="MAC addresses of the endpoints, in any notation.")
    groups: GroupNames = Field(description="Names of the groups.")


class BulkUser(Input):
    """A user. An existing user keeps omitted fields; a new user needs a password."""

    name: str = Field(max_length=253, examples=["ann"], description="Name of the user.")
    password: str | None = Field(
        None,
        max_length=128,
        description=(
            "Password of the user, 8 characters to 128 octets. Required for a new user; null leaves an existing "
            "password unchanged."
        ),
    )
    groups: GroupNames | None = Field(
        None, description="Names of the groups of the user; null leaves the groups of an existing user unchanged."
    )
    valid_until: Moment | None = Field(
        None,
        description=(
            "Time from which Admit rejects the user; null for no limit of a new user, and no change of an existing "
            "user."
        ),
    )
    disabled: bool | None = Field(
        None,
        description=(
            "Whether the user is disabled. Admit rejects a disabled user regardless of the policy. null leaves an "
            "existing user unchanged."
        ),
    )


class PutUsers(Input):
    model_config = body_example(
        {
            "operation": "put",
            "existing": "update",
            "make_groups": True,
            "items": [{"name": "ann", "password": "four words of mine", "groups": ["staff"]}],
        }
    )

    operation: Literal["put"] = Field(description="Operation: create or update the users.")
    items: Annotated[list[BulkUser], BoundedMistakes] = Field(
        min_length=1, max_length=MAX_ROWS, description="Users to create or update."
    )
    existing: OnExisting = Field(
        "refuse",
        description=(
            "Handling of users that exist already: report an error (refuse), update the user (update), or leave "
            "the user unchanged (keep)."
        ),
    )
    make_groups: bool = Field(
        False, description="Whether to create groups that do not exist, instead of reporting an error."
    )
    chap: bool = Field(
        False,
        description="Whether to store the password itself, encrypted, in addition to the hash. "
        "CHAP requires the password itself.",
    )
    mschap: bool = Field(False, description="Whether to store the NT hash too, encrypted, for MS-CHAP and PEAP.")


class PutNases(Input):
    """NASes to create or update. Admit finds an existing NAS by identifier, then by address."""

    model_config = body_example(
        {
            "operation": "put",
            "existing": "update",
            "items": [{"name": "Switch North 1", "site": "main", "identifier": "sw-north-1", "vendor": "cisco"}],
        }
    )

    operation: Literal["put"] = Field(description="Operation: create or update the NASes.")
    items: Annotated[list[NasInput], BoundedMistakes] = Field(
        min_length=1, max_length=MAX_ROWS, description="NASes to create or update."
    )
    existing: OnExisting = Field(
        "refuse",
        description=(
            "Handling of NASes that exist already: report an error (refuse), update the NAS (update), or leave "
            "the NAS unchanged (keep)."
        ),
    )


# 10,000 endpoints with all fields are about 5 MB.
_BULK_BODY = accept_body(most_bytes=16 * 1024 * 1024)
_EndpointChanges = Annotated[PutEndpoints | ChangeEndpoints | GroupEndpoints, Body(discriminator="operation")]


@router.post("/endpoints/bulk", operation_id="updateEndpointsInBulk", responses=_ACCEPTED, openapi_extra=_BULK_BODY)
def update_endpoints(access: ChangesEndpoints, body: _EndpointChanges) -> BulkResult | Job:
    """Create, change or delete up to 10,000 endpoints.

    If a row is invalid, nothing is stored, and the response lists each error with its row and field.
    """
    if isinstance(body, PutEndpoints):
        rows = _dump_given_fields(body)
        return _run_or_queue(access, "endpoints.put", rows, len(body.items), groups=jobs.count_groups(rows["items"]))
    return _run_or_queue(access, f"endpoints.{body.operation}", _dump_given_fields(body), len(body.macs))


@router.post("/users/bulk", operation_id="updateUsersInBulk", responses=_ACCEPTED, openapi_extra=_BULK_BODY)
def update_users(access: ChangesUsers, body: PutUsers) -> BulkResult | Job:
    """Create or change up to 10,000 users. Admit makes all changes or none.

    Hashing a password takes about 20 ms, so a request with more than 50 users becomes a job.
    """
    rows = _dump_given_fields(body)
    # Changes of groups take far less time than hashing a password.
    groups = jobs.count_groups(rows["items"]) // (jobs.MAX_INLINE_ROWS // jobs.MAX_INLINE_USERS)
    return _run_or_queue(access, "users.put", rows, len(body.items), groups=groups, at_once=jobs.MAX_INLINE_USERS)


@router.post("/nases/bulk", operation_id="updateNasesInBulk", responses=_ACCEPTED, openapi_extra=_BULK_BODY)
def update_nases(access: ChangesNases, body: PutNases) -> BulkResult | Job:
    """Create or change up to 10,000 NASes. Admit makes all changes or none."""
    return _run_or_queue(access, "nases.put", _dump_given_fields(body), len(body.items))


def _dump_given_fields(body: BaseModel) -> dict[str, Any]:
    """Return the fields that the request sets. Omitted fields stay unchanged."""
    return body.model_dump(mode="json", exclude_unset=True)


def _run_or_queue(
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
            return change.answer(respond_accepted(access, change.response, row))
        return change.answer(BulkResult(**jobs.run_bulk(change.session, **who, operation=operation, given=given)))
