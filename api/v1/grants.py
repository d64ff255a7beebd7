"""Grants of the caller. With these routes, a program can read the permissions of its token."""

from collections.abc import Mapping
from typing import Annotated, Literal
from uuid import UUID

from fastapi import Depends
from pydantic import BaseModel, Field

from api.access import RequiresSelf
from api.caller import Caller
from api.routes import NounRouter
from nac.core.access.grants import Grant as GrantOf
from nac.core.access.tenant_lookup import slugs_by_id
from nac.kit.db import session_scope
from nac.kit.permissions import PermissionLevel

router = NounRouter(tag="grants", description="Grants of the caller: permissions at the platform, MSPs and tenants.")


class Grant(BaseModel):
    on: Literal["platform", "msp", "tenant"] = Field(description="Level of the grant: platform, MSP or tenant.")
    msp_id: UUID | None = Field(description="Id of the MSP to which the grant applies.")
    tenant_id: UUID | None = Field(description="Id of the tenant of the grant; null if the grant is not on a tenant.")
    msp: str | None = Field(examples=["acme"], description="Slug of the MSP to which the grant applies.")
    tenant: str | None = Field(description="Slug of the tenant of the grant.")
    tenants: list[UUID] | None = Field(
        description="Ids of the MSP's tenants that the grant covers; null for all tenants of the MSP."
    )
    tenant_slugs: list[str] | None = Field(
        description="Slugs of the MSP's tenants that the grant covers; null for all tenants of the MSP."
    )
    permissions: list[str] = Field(
        examples=[["endpoint.read", "tenant.read"]],
        description="Permissions of the grant, such as endpoint.read (docs/reference/permissions.md).",
    )


class GrantList(BaseModel):
    actor: str = Field(
        examples=["token:monitoring (admit_abcdefghijklmnop)"], description="Name of the caller in the audit log."
    )
    grants: list[Grant] = Field(description="Grants of the caller.")


@router.get("/grants", operation_id="listMyGrants")
def list_grants(asked: Annotated[Caller, Depends(RequiresSelf())]) -> GrantList:
    """List your grants, which are your permissions at the platform, MSPs and tenants.

    The caller is a person or a token. Paths of the API accept the slug or the id of an MSP or tenant.
    """
    grants = asked.principal.grants
    with session_scope(asked.grants_scope) as session:
        slugs = slugs_by_id(session, grants)
    return GrantList(actor=asked.principal.actor, grants=[_build_grant(each, slugs) for each in grants])


_LEVEL_NAMES: dict[PermissionLevel, Literal["platform", "msp", "tenant"]] = {
    PermissionLevel.PLATFORM: "platform",
    PermissionLevel.MSP: "msp",
    PermissionLevel.TENANT: "tenant",
}


def _build_grant(grant: GrantOf, slugs: Mapping[UUID, str]) -> Grant:
    return Grant(
        on=_LEVEL_NAMES[grant.level],
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
