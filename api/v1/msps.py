"""Managed service providers."""

from datetime import datetime
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Depends, Query
from pydantic import BaseModel, Field

from api.access import Access, ChangesMsp, ChangesPlatform, ReadsMsp, ReadsPlatform
from api.v1.inputs import Input, Name, Slug
from api.v1.paging import Ordered, Page, sorted_by
from nac.accounts.permissions import Permission
from nac.models import Msp as MspRow
from nac.msps import service as msps
from nac.msps.repository import ORDERS

router = APIRouter(prefix="/msps", tags=["msps"])

Lists = Annotated[Access, Depends(ReadsPlatform(Permission.MSP_READ))]
Creates = Annotated[Access, Depends(ChangesPlatform(Permission.MSP_CREATE))]
Reads = Annotated[Access, Depends(ReadsMsp(Permission.MSP_READ))]
Manages = Annotated[Access, Depends(ChangesMsp(Permission.MSP_MANAGE))]


class Msp(BaseModel):
    id: UUID
    slug: str
    name: str
    # How long a tenant that was deleted can be had back.
    deletion_days: int
    created_at: datetime


class NewMsp(Input):
    slug: Slug = Field(examples=["acme"])
    name: Name = Field("", examples=["Acme Networks"])


class MspChange(Input):
    name: Name | None = None
    deletion_days: int | None = Field(None, ge=msps.DELETION_DAYS[0], le=msps.DELETION_DAYS[1], examples=[30])


@router.get("", operation_id="listMsps")
def list_msps(
    access: Lists,
    paging: Annotated[Ordered, Depends(sorted_by(ORDERS))],
    text: Annotated[str, Query(max_length=200, description="A part of slug or name.")] = "",
) -> Page[Msp]:
    """By slug; for who runs the platform."""
    with access.read() as session:
        rows = msps.list_msps(session, span=paging.span, text=text)
        return paging.ordered(rows, _msp)


@router.post("", status_code=201, operation_id="createMsp")
def create_msp(access: Creates, body: NewMsp) -> Msp:
    with access.change() as change:
        row = msps.create_msp(change.session, actor=access.actor, slug=body.slug, name=body.name)
        return change.answer(_msp(row))


@router.get("/{msp}", operation_id="getMsp")
def get_msp(access: Reads) -> Msp:
    with access.read() as session:
        return access.shown(_msp(msps.require(session, msp_id=access.msp_id)))


@router.patch("/{msp}", operation_id="changeMsp")
def change_msp(access: Manages, body: MspChange) -> Msp:
    """What is left out stays as it is."""
    with access.change() as change:
        change.require_match(_msp(msps.require(change.session, msp_id=access.msp_id, lock=True)))
        given = body.model_dump(exclude_none=True)
        row = msps.set_msp(change.session, actor=access.actor, msp_id=access.msp_id, **given)
        return change.answer(_msp(row))


def _msp(row: MspRow) -> Msp:
    return Msp(id=row.id, slug=row.slug, name=row.name, deletion_days=row.deletion_days, created_at=row.created_at)
