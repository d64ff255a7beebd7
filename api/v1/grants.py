"""What the asker may do where, whoever it is: a program has no other way to learn what its token is good for."""

from typing import Annotated, Literal
from uuid import UUID

from fastapi import APIRouter, Depends
from pydantic import BaseModel, Field

from api.access import Asked, Mine
from nac.accounts.grants import Grant as GrantOf
from nac.accounts.permissions import Level

router = APIRouter(tags=["grants"])


class Grant(BaseModel):
    on: Literal["platform", "msp", "tenant"]
    # Null on the platform, and where a grant on a tenant names no MSP.
    msp_id: UUID | None
    tenant_id: UUID | None
    # Of the MSP's tenants those alone; null for all of them.
    tenants: list[UUID] | None
    permissions: list[str] = Field(examples=[["endpoint.read", "tenant.read"]])


class Grants(BaseModel):
    # As the audit log names it.
    actor: str = Field(examples=["token:monitoring (admit_abcdefghijklmnop)"])
    grants: list[Grant]


@router.get("/grants", operation_id="listMyGrants")
def list_grants(asked: Annotated[Asked, Depends(Mine())]) -> Grants:
    """Of the token or the person that asks."""
    return Grants(actor=asked.principal.actor, grants=[_grant(each) for each in asked.principal.grants])


_ON: dict[Level, Literal["platform", "msp", "tenant"]] = {
    Level.PLATFORM: "platform",
    Level.MSP: "msp",
    Level.TENANT: "tenant",
}


def _grant(grant: GrantOf) -> Grant:
    return Grant(
        on=_ON[grant.level],
        msp_id=grant.msp_id,
        tenant_id=grant.tenant_id,
        tenants=sorted(grant.chosen) if grant.chosen is not None else None,
        permissions=sorted(grant.permissions),
    )
