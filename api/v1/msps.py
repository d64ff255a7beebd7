"""Managed service providers."""

from datetime import datetime
from typing import Annotated, Literal
from uuid import UUID

from fastapi import APIRouter, Depends, Query
from pydantic import BaseModel, Field

from api.access import Access, Asked, ChangesMsp, ChangesPlatform, Mine, OperatesMsp, ReadsMsp
from api.v1.inputs import Input, Name, Omittable, Slug
from api.v1.paging import OrderedPaging, Page, sorted_by
from nac.accounts.effects import Effect
from nac.accounts.permissions import Permission
from nac.models import Msp as MspRow
from nac.msps import lifecycle
from nac.msps import service as msps
from nac.msps.repository import ORDERS

router = APIRouter(prefix="/msps", tags=["msps"])

_Status = Literal["active", "suspended"]

Creates = Annotated[Access, Depends(ChangesPlatform(Permission.MSP_CREATE, Effect.PLATFORM))]
Reads = Annotated[Access, Depends(ReadsMsp(Permission.MSP_READ))]
Suspends = Annotated[Access, Depends(OperatesMsp(Permission.MSP_SUSPEND, Effect.REJECTION, Effect.PLATFORM))]
Deletes = Annotated[Access, Depends(OperatesMsp(Permission.MSP_DELETE, Effect.ERASURE))]
Manages = Annotated[Access, Depends(ChangesMsp(Permission.MSP_MANAGE, Effect.PLATFORM))]


class Msp(BaseModel):
    id: UUID = Field(description="Id; it stays.")
    slug: str = Field(description="Its name in addresses: a DNS label.")
    name: str = Field(description="Name, for people.")
    status: _Status = Field(description="What state it is in.")
    deletion_days: int = Field(description="Days within which a deleted tenant can be had back.")
    created_at: datetime = Field(description="When it was made.")


class MspInput(Input):
    slug: Slug = Field(examples=["acme"], description="Its name in addresses: a DNS label.")
    name: Name = Field("", examples=["Acme Networks"], description="Name, for people.")


class MspUpdate(Input):
    name: Omittable[Name] = Field(None, description="Name, for people.")
    deletion_days: Omittable[int] = Field(
        None,
        ge=msps.DELETION_DAYS[0],
        le=msps.DELETION_DAYS[1],
        examples=[30],
        description="Days within which a deleted tenant can be had back.",
    )


class MspSuspension(Input):
    with_tenants: bool = Field(
        False, description="Nothing of its active tenants is admitted either, until it is resumed."
    )


@router.get("", operation_id="listMsps")
def list_msps(
    asked: Annotated[Asked, Depends(Mine())],
    paging: Annotated[OrderedPaging, Depends(sorted_by(ORDERS))],
    text: Annotated[str, Query(max_length=200, description="A part of slug or name.")] = "",
    status: Annotated[list[_Status] | None, Query()] = None,
) -> Page[Msp]:
    """Those that the asker may read: all for who runs the platform, own ones for their people and tokens, none for
    others. What asks for two factors is left out for who has shown one."""
    with asked.among_msps(Permission.MSP_READ) as (session, only):
        rows = msps.list_visible(
            session,
            only=only,
            span=paging.span,
            text=text,
            statuses=status or (),
            has_two_factors=asked.signed_in is None or asked.signed_in.has_two_factors,
        )
        return paging.ordered(rows, _msp)


@router.post("", status_code=201, operation_id="createMsp")
def create_msp(access: Creates, body: MspInput) -> Msp:
    with access.change() as change:
        row = msps.create_msp(change.session, actor=access.actor, slug=body.slug, name=body.name)
        change.located(row.slug)
        return change.answer(_msp(row))


@router.get("/{msp}", operation_id="getMsp")
def get_msp(access: Reads) -> Msp:
    with access.read() as session:
        return access.shown(_msp(msps.require_msp(session, msp_id=access.msp_id)))


@router.patch("/{msp}", operation_id="updateMsp")
def update_msp(access: Manages, body: MspUpdate) -> Msp:
    """What is left out stays as it is."""
    with access.change() as change:
        change.require_match(_msp(msps.require_msp(change.session, msp_id=access.msp_id, lock=True)))
        given = body.model_dump(exclude_none=True)
        row = msps.update_msp(change.session, actor=access.actor, msp_id=access.msp_id, **given)
        return change.answer(_msp(row))


@router.post("/{msp}/suspend", operation_id="suspendMsp")
def suspend_msp(access: Suspends, body: MspSuspension) -> Msp:
    """Its people, its tokens and what its people have made tokens for are refused (403 `msp-suspended`), and its
    roll-outs stop. Its tenants' own people and their networks go on, unless `with_tenants` is said, now or later."""
    with access.change() as change:
        change.require_match(_msp(msps.require_msp(change.session, msp_id=access.operated_id, lock=True)))
        row = lifecycle.suspend_msp(
            change.session, actor=access.actor, msp_id=access.operated_id, with_tenants=body.with_tenants
        )
        return change.answer(_msp(row))


@router.post("/{msp}/resume", operation_id="resumeMsp")
def resume_msp(access: Suspends) -> Msp:
    """With the tenants that were suspended with it. Roll-outs wait for somebody to go on with them."""
    with access.change() as change:
        change.require_match(_msp(msps.require_msp(change.session, msp_id=access.operated_id, lock=True)))
        return change.answer(_msp(lifecycle.resume_msp(change.session, actor=access.actor, msp_id=access.operated_id)))


@router.delete("/{msp}", status_code=204, operation_id="deleteMsp")
def delete_msp(access: Deletes) -> None:
    """With all that is its own; 409 `msp-has-tenants` while there is a tenant, one that can still be had back included.
    What the audit log tells of it stays, for who runs the platform."""
    with access.change() as change:
        change.require_match(_msp(msps.require_msp(change.session, msp_id=access.operated_id, lock=True)))
        lifecycle.delete_msp(change.session, actor=access.actor, msp_id=access.operated_id)
        change.answer_nothing()


def _msp(row: MspRow) -> Msp:
    return Msp.model_validate(row, from_attributes=True)
