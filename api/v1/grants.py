"""What the asker may do where, whoever it is: a program has no other way to learn what its token is good for."""

from collections.abc import Mapping
from typing import Annotated, Literal
from uuid import UUID

from fastapi import APIRouter, Depends
from pydantic import BaseModel, Field

from api.access import Asked, Mine, reading
from nac.accounts.grants import Grant as GrantOf
from nac.accounts.permissions import Level
from nac.accounts.places import slugs_of

router = APIRouter(tags=["grants"])


class Grant(BaseModel):
    on: Literal["platform", "msp", "tenant"] = Field(description="Whether it is of the platform, an MSP or a tenant.")
    msp_id: UUID | None = Field(description="Id of the MSP.")
    tenant_id: UUID | None = Field(description="Id of the tenant; null where it is of none.")
    msp: str | None = Field(description="Slug of the MSP that it is on.")
    tenant: str | None = Field(description="Slug of the tenant that it is on.")
    tenants: list[UUID] | None = Field(description="Ids of the MSP's tenants that it is for; null for all of them.")
    tenant_slugs: list[str] | None = Field(description="Slugs of these tenants; null for all of them.")
    permissions: list[str] = Field(
        examples=[["endpoint.read", "tenant.read"]],
        description="Names of permissions, such as endpoint.read (docs/reference/permissions.md).",
    )


class GrantList(BaseModel):
    actor: str = Field(
        examples=["token:monitoring (admit_abcdefghijklmnop)"], description="How the audit log names whoever asks."
    )
    grants: list[Grant] = Field(description="What may be done where.")


@router.get("/grants", operation_id="listMyGrants")
def list_grants(asked: Annotated[Asked, Depends(Mine())]) -> GrantList:
    """Of the token or the person that asks: where it may do what. Paths name a place by its slug or its id."""
    grants = asked.principal.grants
    with reading(asked.request, asked.own_scope) as session:
        slugs = slugs_of(session, grants)
    return GrantList(actor=asked.principal.actor, grants=[_grant(each, slugs) for each in grants])


_ON: dict[Level, Literal["platform", "msp", "tenant"]] = {
    Level.PLATFORM: "platform",
    Level.MSP: "msp",
    Level.TENANT: "tenant",
}


def _grant(grant: GrantOf, slugs: Mapping[UUID, str]) -> Grant:
    return Grant(
        on=_ON[grant.level],
        msp_id=grant.msp_id,
        tenant_id=grant.tenant_id,
        msp=slugs.get(grant.msp_id) if grant.msp_id is not None else None,
        tenant=slugs.get(grant.tenant_id) if grant.tenant_id is not None else None,
        tenants=sorted(grant.chosen) if grant.chosen is not None else None,
        tenant_slugs=sorted(slugs[each] for each in grant.chosen if each in slugs)
        if grant.chosen is not None
        else None,
        permissions=sorted(grant.permissions),
    )
