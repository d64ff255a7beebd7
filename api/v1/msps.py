"""Managed service providers (MSPs)."""

from datetime import datetime
from typing import Annotated, Literal
from uuid import UUID

from fastapi import Depends, Query
from pydantic import BaseModel, Field

from api.access import Access, ChangesMsp, ChangesPlatform, OperatesMsp, ReadsMsp, RequiresSelf
from api.caller import Caller
from api.routes import NounRouter
from api.v1.inputs import Input, Name, Omittable, Slug
from api.v1.paging import OrderedPaging, Page, require_paging
from nac.kit.permissions import Effect, Permission
from nac.models import Msp as MspRow
from nac.onboarding import msp_lifecycle
from nac.tenancy import msps
from nac.tenancy.msps import ORDERS

router = NounRouter(
    prefix="/msps", tag="msps", description="Managed service providers, who run Admit for their customers."
)

_Status = Literal["active", "suspended"]

Creates = Annotated[Access, Depends(ChangesPlatform(Permission.MSP_CREATE, Effect.PLATFORM))]
Reads = Annotated[Access, Depends(ReadsMsp(Permission.MSP_READ))]
Suspends = Annotated[Access, Depends(OperatesMsp(Permission.MSP_SUSPEND, Effect.REJECTION, Effect.PLATFORM))]
Deletes = Annotated[Access, Depends(OperatesMsp(Permission.MSP_DELETE, Effect.ERASURE))]
Manages = Annotated[Access, Depends(ChangesMsp(Permission.MSP_MANAGE, Effect.PLATFORM))]


class Msp(BaseModel):
    id: UUID = Field(description="Permanent id of the MSP.")
    slug: str = Field(description="Slug of the MSP, which is a DNS label.")
    name: str = Field(description="Name of the MSP.")
    status: _Status = Field(description="Status of the MSP.")
    deletion_days: int = Field(description="Days within which you can restore a deleted tenant of the MSP.")
    created_at: datetime = Field(description="Time when the MSP was created.")


class MspInput(Input):
    slug: Slug = Field(examples=["acme"], description="Slug of the MSP, which is a DNS label.")
    name: Name = Field("", examples=["Acme Networks"], description="Name of the MSP.")


class MspUpdate(Input):
    name: Omittable[Name] = Field(None, description="Name of the MSP.")
    deletion_days: Omittable[int] = Field(
        None,
        ge=msps.DELETION_DAYS[0],
        le=msps.DELETION_DAYS[1],
        examples=[30],
        description="Days within which you can restore a deleted tenant of the MSP.",
    )


class MspSuspension(Input):
    with_tenants: bool = Field(
        False,
        description=(
            "Whether to suspend active tenants of the MSP too. Suspended tenants admit no device until you resume "
            "the MSP."
        ),
    )


@router.get("", operation_id="listMsps")
def list_msps(
    asked: Annotated[Caller, Depends(RequiresSelf())],
    paging: Annotated[OrderedPaging, Depends(require_paging(ORDERS))],
    text: Annotated[str, Query(max_length=200, description="Part of the slug or name of the MSPs to list.")] = "",
    status: Annotated[list[_Status] | None, Query(description="Status of the MSPs to list.")] = None,
) -> Page[Msp]:
    """List MSPs that you can read.

    Platform operators see all MSPs; members and tokens see only their own MSP. After a sign-in with one factor, the
    list omits MSPs that require two factors.
    """
    with asked.read_msps(Permission.MSP_READ) as (session, only):
        rows = msps.list_visible(
            session,
            only=only,
            span=paging.span,
            text=text,
            statuses=status or (),
            has_two_factors=asked.signed_in is None or asked.signed_in.has_two_factors,
        )
        return paging.ordered(rows, _build_msp)


@router.post("", status_code=201, operation_id="createMsp")
def create_msp(access: Creates, body: MspInput) -> Msp:
    """Create an MSP."""
    with access.change() as change:
        row = msps.create_msp(change.session, actor=access.actor, slug=body.slug, name=body.name)
        change.located(row.slug)
        return change.answer(_build_msp(row))


@router.get("/{msp}", operation_id="getMsp")
def get_msp(access: Reads) -> Msp:
    """Get an MSP."""
    with access.read() as session:
        return access.shown(_build_msp(msps.require_msp(session, msp_id=access.msp_id)))


@router.patch("/{msp}", operation_id="updateMsp")
def update_msp(access: Manages, body: MspUpdate) -> Msp:
    """Update an MSP.

    Omitted fields stay unchanged.
    """
    with access.change() as change:
        change.require_match(_build_msp(msps.require_msp(change.session, msp_id=access.msp_id, lock=True)))
        changes = body.model_dump(exclude_none=True)
        row = msps.update_msp(change.session, actor=access.actor, msp_id=access.msp_id, **changes)
        return change.answer(_build_msp(row))


@router.post("/{msp}/suspend", operation_id="suspendMsp")
def suspend_msp(access: Suspends, body: MspSuspension) -> Msp:
    """Suspend an MSP.

    Members and tokens of the MSP, and tokens that these members created, get 403 `msp-suspended`. Template roll-outs of
    the MSP stop. Members of the MSP's tenants can still sign in, and the tenants' networks continue to work. To stop
    the tenants too, set `with_tenants`, now or in a later request.
    """
    with access.change() as change:
        change.require_match(_build_msp(msps.require_msp(change.session, msp_id=access.operated_msp_id, lock=True)))
        row = msp_lifecycle.suspend_msp(
            change.session, actor=access.actor, msp_id=access.operated_msp_id, with_tenants=body.with_tenants
        )
        return change.answer(_build_msp(row))


@router.post("/{msp}/resume", operation_id="resumeMsp")
def resume_msp(access: Suspends) -> Msp:
    """Resume an MSP and the tenants that were suspended with the MSP.

    Template roll-outs of the MSP stay stopped until you resume the roll-outs.
    """
    with access.change() as change:
        change.require_match(_build_msp(msps.require_msp(change.session, msp_id=access.operated_msp_id, lock=True)))
        return change.answer(
            _build_msp(msp_lifecycle.resume_msp(change.session, actor=access.actor, msp_id=access.operated_msp_id))
        )


@router.delete("/{msp}", status_code=204, operation_id="deleteMsp")
def delete_msp(access: Deletes) -> None:
    """Delete an MSP and everything that the MSP owns.

    This fails with 409 `msp-has-tenants` if the MSP has a tenant, or a deleted tenant that can be restored. Platform
    operators can still read the audit entries of the MSP.
    """
    with access.change() as change:
        change.require_match(_build_msp(msps.require_msp(change.session, msp_id=access.operated_msp_id, lock=True)))
        msp_lifecycle.delete_msp(change.session, actor=access.actor, msp_id=access.operated_msp_id)
        change.set_empty_response()


def _build_msp(row: MspRow) -> Msp:
    return Msp.model_validate(row, from_attributes=True)
