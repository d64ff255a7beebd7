"""Tenants: those that the asker may see, and those of an MSP."""

from datetime import datetime
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Depends, Request
from pydantic import BaseModel, Field

from api.access import Access, ChangesMsp, ChangesTenant, ReadsMsp, ReadsTenant
from api.state import signing_of
from api.v1.inputs import Input, Name, Slug
from api.v1.paging import Page, Paging
from nac.accounts.permissions import Permission
from nac.cells import service as cells
from nac.models import Tenant as TenantRow
from nac.provisioning import provision_tenant
from nac.tenants import service as tenants

router = APIRouter(tags=["tenants"])

Reads = Annotated[Access, Depends(ReadsTenant(Permission.TENANT_READ))]
Manages = Annotated[Access, Depends(ChangesTenant(Permission.TENANT_MANAGE))]
Lists = Annotated[Access, Depends(ReadsMsp(Permission.MSP_READ))]
Creates = Annotated[Access, Depends(ChangesMsp(Permission.TENANT_CREATE))]


class Tenant(BaseModel):
    id: UUID
    slug: str
    name: str
    status: str
    created_at: datetime
    updated_at: datetime


class Listeners(BaseModel):
    """Where the tenant's NASes send to."""

    auth_port: int
    acct_port: int


class TenantWithListeners(Tenant):
    listeners: Listeners


class NewTenant(Input):
    slug: Slug = Field(examples=["hill-school"])
    name: Name = Field("", examples=["Hill School"])
    # Names that devices check in the RADIUS server's certificate; without any, one of the slug.
    server_names: list[Annotated[str, Field(max_length=253)]] = Field(default=[], max_length=10)


@router.get("/msps/{msp}/tenants", operation_id="listTenants")
def list_tenants(access: Lists, paging: Annotated[Paging, Depends()]) -> Page[Tenant]:
    """By slug: those of the MSP that the asker may see."""
    after = paging.after()
    only = access.principal.tenants_of(access.msp_id)
    with access.read() as session:
        rows = tenants.list_tenants(session, after_slug=after, limit=paging.limit + 1, only=only)
        return paging.page(rows, lambda row: row.slug, _tenant)


@router.post("/msps/{msp}/tenants", status_code=201, operation_id="createTenant")
def create_tenant(request: Request, access: Creates, body: NewTenant) -> TenantWithListeners:
    """With slot, first site, certificate authorities and server certificate. It denies everything until a policy is
    assigned to its site."""
    with access.as_platform().change() as change:
        row = provision_tenant(
            change.session,
            actor=access.actor,
            slug=body.slug,
            msp_id=access.msp_id,
            name=body.name,
            server_names=body.server_names,
            signing=signing_of(request),
        )
        slot = cells.require_slot(change.session, tenant_id=row.id)
        listeners = Listeners(auth_port=slot.auth_port, acct_port=slot.acct_port)
        return change.answer(TenantWithListeners(**_tenant(row).model_dump(), listeners=listeners))


@router.get("/tenants/{tenant}", operation_id="getTenant")
def get_tenant(access: Reads) -> TenantWithListeners:
    with access.read() as session:
        row = tenants.require(session, tenant_id=access.tenant_id)
        slot = cells.require_slot(session, tenant_id=access.tenant_id)
        listeners = Listeners(auth_port=slot.auth_port, acct_port=slot.acct_port)
        return access.shown(TenantWithListeners(**_tenant(row).model_dump(), listeners=listeners))


@router.post("/tenants/{tenant}/suspend", operation_id="suspendTenant")
def suspend_tenant(access: Manages) -> Tenant:
    """Nothing of the tenant is admitted until it is resumed."""
    with access.change() as change:
        row = tenants.suspend_tenant(change.session, actor=access.actor, tenant_id=access.tenant_id)
        return change.answer(_tenant(row))


@router.post("/tenants/{tenant}/resume", operation_id="resumeTenant")
def resume_tenant(access: Manages) -> Tenant:
    with access.change() as change:
        row = tenants.resume_tenant(change.session, actor=access.actor, tenant_id=access.tenant_id)
        return change.answer(_tenant(row))


def _tenant(row: TenantRow) -> Tenant:
    return Tenant(
        id=row.id,
        slug=row.slug,
        name=row.name,
        status=row.status,
        created_at=row.created_at,
        updated_at=row.updated_at,
    )
