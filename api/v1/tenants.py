"""Tenants: all tenants that the caller can see, and the tenants of an MSP."""

from datetime import datetime, timedelta
from typing import Annotated, Any, Literal, get_args
from uuid import UUID

from fastapi import Depends, Path, Query, Request
from pydantic import BaseModel, Field
from sqlalchemy.orm import Session

from api.access import (
    Access,
    ChangesMsp,
    ChangesNamedMsp,
    ChangesTenant,
    ReadsMsp,
    ReadsTenant,
    RequiresSelf,
    UnresolvedMspAccess,
)
from api.application_state import get_settings, get_signing
from api.caller import Caller
from api.change import Change
from api.routes import NounRouter
from api.v1.inputs import Input, Name, Omittable, Slug, SlugOrNone, body_example, body_references
from api.v1.paging import OrderedPaging, Page, require_paging
from nac.cellformat.methods import MethodOffer, parse_offer
from nac.core.access.tenant_lookup import find_tenant
from nac.kit.clock import utc_now
from nac.kit.db import enter_platform, enter_tenant, lock_row
from nac.kit.ids import TenantId
from nac.kit.permissions import Effect, Permission, PermissionLevel
from nac.models import Tenant as TenantRow
from nac.models.tenant import StatusFailureMode, TenantStatus
from nac.onboarding.provisioning import finish_tenant, provision_tenant
from nac.tenancy import msps
from nac.tenancy.cells import service as cells
from nac.tenancy.tenants import service as tenants
from nac.tenancy.tenants.realms import MAX_REALMS
from nac.tenancy.tenants.repository import ORDERS

router = NounRouter(
    tag="tenants",
    description="Customers with their own networks, policies and data.",
)

_Status = Literal["active", "suspended", "deleting"]
_Key = Annotated[str, Path(description="Slug or id of the tenant.", max_length=63)]
_Words = list[Annotated[str, Field(max_length=40)]]
Reads = Annotated[Access, Depends(ReadsTenant(Permission.TENANT_READ))]
Manages = Annotated[Access, Depends(ChangesTenant(Permission.TENANT_MANAGE, Effect.TRUST, Effect.REJECTION))]
Lists = Annotated[Access, Depends(ReadsMsp(Permission.MSP_READ))]
Creates = Annotated[Access, Depends(ChangesMsp(Permission.TENANT_CREATE, Effect.TENANTS))]
CreatesInNamedMsp = Annotated[UnresolvedMspAccess, Depends(ChangesNamedMsp(Permission.TENANT_CREATE, Effect.TENANTS))]
Deletes = Annotated[Access, Depends(ChangesMsp(Permission.TENANT_DELETE, Effect.REJECTION, Effect.ERASURE))]
_Statuses = Annotated[list[_Status] | None, Query(description="Status of the tenants to list.")]


class Tenant(BaseModel):
    id: UUID = Field(description="Permanent id of the tenant.")
    slug: str = Field(description="Slug of the tenant, which is a DNS label.")
    name: str = Field(description="Name of the tenant.")
    status: str = Field(
        description=(
            "Status of the tenant. A `suspended` tenant admits no device, and you cannot change the tenant. You "
            "can restore a `deleting` tenant until `purge_at`."
        ),
        json_schema_extra={"enum": list(get_args(TenantStatus))},
    )
    purge_at: datetime | None = Field(
        description="Time when Admit deletes the tenant's data; null unless the tenant is being deleted."
    )
    created_at: datetime = Field(description="Time when the tenant was created.")
    updated_at: datetime = Field(description="Time of the last change of the tenant.")


class MspTenant(Tenant):
    msp_id: UUID = Field(description="Id of the tenant's MSP.")


class Listeners(BaseModel):
    """RADIUS address and ports of a tenant."""

    address: str = Field(
        description="Address of the tenant's cell, or of the platform if the cell has no address.",
        examples=["radius.example"],
    )
    auth_port: int = Field(description="UDP port of the tenant for authentication.")
    acct_port: int = Field(description="UDP port of the tenant for accounting.")


class TenantSettings(BaseModel):
    methods: list[str] = Field(description="Authentication methods that the tenant offers.")
    tls_versions: list[str] = Field(examples=[["1.2", "1.3"]], description="TLS versions that the tenant offers.")
    replay_days: int = Field(description="Days of requests that Admit replays before you publish a policy; 0 for none.")
    renewal_keeps_key: bool = Field(description="Whether devices can renew a certificate with the same key.")
    status_failure: str = Field(
        description="Handling of certificates with unknown status: admit (soft) or reject (hard)."
    )
    nat_session_seconds: int = Field(
        description="Session-Timeout in seconds for devices behind NASes that CoA requests cannot reach; 0 for none."
    )
    silent_reports: int = Field(description="Number of missed interim reports after which a session counts as ended.")
    silent_days: int = Field(
        description="Days without reports until a session counts as ended, if the NAS sends no interim reports."
    )
    failure_limit: int = Field(
        description="Number of failed logins within `failure_window_seconds` after which Admit rejects a device."
    )
    failure_window_seconds: int = Field(description="Seconds after which Admit resets the failure count of a device.")
    password_failure_limit: int = Field(
        description=(
            "Maximum number of wrong passwords per user name within `password_failure_window_seconds`; then Admit "
            "rejects the user name. A device from which the user has logged in before has a separate count."
        )
    )
    password_failure_window_seconds: int = Field(description="Seconds after which the count of wrong passwords resets.")
    realms: list[str] = Field(
        description="Realms and NetBIOS domains to remove from user names: with CORP and corp.example, "
        "CORP\\anna and anna@corp.example become anna."
    )


class TenantDetail(MspTenant):
    listeners: Listeners = Field(description="RADIUS address and ports of the tenant for NASes.")
    settings: TenantSettings = Field(description="Settings of the tenant.")


class TenantInput(Input):
    slug: Slug = Field(examples=["hill-school"], description="Slug of the tenant, which is a DNS label.")
    name: Name = Field("", examples=["Hill School"], description="Name of the tenant.")
    server_names: list[Annotated[str, Field(max_length=253)]] = Field(
        default=[], max_length=10, description="Names in the RADIUS server's certificate, which devices check."
    )
    policy: Literal["standard", "none"] = Field(
        "standard",
        description="Initial policy of the tenant: admit only approved devices (standard), or deny everything (none).",
    )
    place: SlugOrNone = Field(
        "",
        examples=["frankfurt"],
        description='Label of the tenant\'s cell; "" for the cell with the most free port pairs.',
    )


class MspTenantInput(TenantInput):
    msp: str | None = Field(
        None,
        max_length=63,
        description="Slug or id of the tenant's MSP. Required if you have grants on several MSPs or on the platform.",
        examples=["acme"],
    )


class TenantUpdate(Input):
    model_config = body_example(
        {
            "name": "Hill School",
            "methods": ["eap-tls", "mab"],
            "tls_versions": ["1.2", "1.3"],
            "replay_days": 7,
            "nat_session_seconds": 3600,
            "silent_days": 7,
        }
    )

    name: Omittable[Name] = Field(None, description="Name of the tenant.")
    methods: Omittable[_Words] = Field(
        None,
        max_length=20,
        examples=[["eap-tls", "mab"]],
        description=(
            "Authentication methods that the tenant offers. With peap-mschapv2 and mschapv1, an attacker with a "
            "rogue access point can recover passwords (docs/reference/methods.md)."
        ),
    )
    tls_versions: Omittable[_Words] = Field(
        None, max_length=5, examples=[["1.2", "1.3"]], description="TLS versions that the tenant offers."
    )
    replay_days: Omittable[int] = Field(
        None,
        ge=0,
        le=tenants.MAX_REPLAY_DAYS,
        description="Days of requests that Admit replays before you publish a policy; 0 for none.",
    )
    renewal_keeps_key: Omittable[bool] = Field(
        None, description="Whether devices can renew a certificate with the same key."
    )
    status_failure: Omittable[StatusFailureMode] = Field(
        None, description="Handling of certificates with unknown status: admit (soft) or reject (hard)."
    )
    nat_session_seconds: Omittable[int] = Field(
        None,
        ge=0,
        le=tenants.NAT_SESSION_SECONDS[1],
        description="Session-Timeout in seconds for devices behind NASes that CoA requests cannot reach; 0 for none.",
    )
    silent_reports: Omittable[int] = Field(
        None, ge=1, le=1000, description="Number of missed interim reports after which a session counts as ended."
    )
    silent_days: Omittable[int] = Field(
        None,
        ge=1,
        le=1000,
        description="Days without reports until a session counts as ended, if the NAS sends no interim reports.",
    )
    failure_limit: Omittable[int] = Field(
        None,
        ge=1,
        le=1_000_000,
        description="Number of failed logins within `failure_window_seconds` after which Admit rejects a device.",
    )
    failure_window_seconds: Omittable[int] = Field(
        None,
        ge=1,
        le=3_600,
        description="Seconds after which Admit resets the failure count of a device.",
    )
    password_failure_limit: Omittable[int] = Field(
        None,
        ge=1,
        le=1_000_000,
        description=(
            "Maximum number of wrong passwords per user name within `password_failure_window_seconds`; then Admit "
            "rejects the user name. A device from which the user has logged in before has a separate count."
        ),
    )
    password_failure_window_seconds: Omittable[int] = Field(
        None,
        ge=1,
        le=3_600,
        description="Seconds after which the count of wrong passwords resets.",
    )
    realms: Omittable[list[Annotated[str, Field(max_length=253)]]] = Field(
        None,
        max_length=MAX_REALMS,
        examples=[["CORP", "corp.example"]],
        description="Realms and NetBIOS domains to remove from user names: with CORP and corp.example, "
        "CORP\\anna and anna@corp.example become anna.",
    )


@router.get("/msps/{msp}/tenants", operation_id="listTenants")
def list_tenants(
    access: Lists,
    paging: Annotated[OrderedPaging, Depends(require_paging(ORDERS))],
    text: Annotated[str, Query(max_length=200, description="Part of the slug or name of the tenants to list.")] = "",
    status: _Statuses = None,
) -> Page[Tenant]:
    """List the tenants of the MSP that you can see."""
    only = access.principal.tenants_of(access.msp_id)
    with access.read() as session:
        rows = tenants.list_tenants(session, span=paging.span, only=only, text=text, statuses=status or ())
        return paging.ordered(rows, _build_tenant)


@router.get("/tenants", operation_id="listDiscoveredTenants")
def list_seen_tenants(
    asked: Annotated[Caller, Depends(RequiresSelf())],
    paging: Annotated[OrderedPaging, Depends(require_paging(ORDERS))],
    text: Annotated[str, Query(max_length=200, description="Part of the slug or name of the tenants to list.")] = "",
    status: _Statuses = None,
    msp: Annotated[str, Query(max_length=63, description="Slug or id of the MSP of the tenants to list.")] = "",
) -> Page[MspTenant]:
    """List all tenants that you can read, of any MSP.

    The list includes the tenants that you can read by grants on the platform, on an MSP or on a tenant. After a sign-in
    with one factor, the list omits tenants that require two factors.
    """
    has_two = asked.signed_in is None or asked.signed_in.has_two_factors
    with asked.read_tenants(Permission.TENANT_READ) as (session, reach):
        rows = tenants.list_visible(
            session,
            reach=reach,
            span=paging.span,
            msp=msp,
            text=text,
            statuses=status or (),
            has_two_factors=has_two,
        )
        return paging.ordered(rows, lambda row: MspTenant(**_build_tenant(row).model_dump(), msp_id=row.msp_id))


@router.post("/tenants", status_code=201, operation_id="createTenant")
def create_tenant(request: Request, names: CreatesInNamedMsp, body: MspTenantInput) -> TenantDetail:
    """Create a tenant with RADIUS ports, a site, certificate authorities and a server certificate.

    With the standard policy, the tenant is ready for use. With `?wait=live`, the operation waits until the tenant's
    cell responds to NASes.
    """
    with body_references():
        access = names.on_msp(body.msp)
    return _create_tenant(request, access, body)


@router.post("/msps/{msp}/tenants", status_code=201, operation_id="createTenantOfMsp")
def create_tenant_of_msp(request: Request, access: Creates, body: TenantInput) -> TenantDetail:
    """Create a tenant of an MSP, as with `createTenant`."""
    return _create_tenant(request, access, body)


def _create_tenant(request: Request, access: Access, body: TenantInput) -> TenantDetail:
    with access.change() as change:
        # The platform assigns a slot of a cell to the tenant.
        enter_platform(change.session, msp_id=access.msp_id)
        begun = None if change.made_id is None else TenantId(change.made_id)
        row = finish_tenant(change.session, actor=access.actor, tenant_id=begun, signing=get_signing(request))
        if row is None:
            row = provision_tenant(
                change.session,
                actor=access.actor,
                slug=body.slug,
                msp_id=access.msp_id,
                name=body.name,
                server_names=body.server_names,
                label=body.place,
                has_policy=body.policy == "standard",
                signing=get_signing(request),
                note=change.record_created,
            )
        change.tenant_id = row.id
        change.located(row.slug, at="/v1/tenants")
        return change.answer(_build_tenant_detail(access, change.session, row))


@router.get("/tenants/{tenant}", operation_id="getTenant")
def get_tenant(access: Reads) -> TenantDetail:
    """Get a tenant, with settings and RADIUS ports."""
    with access.read() as session:
        return access.shown(
            _build_tenant_detail(access, session, tenants.require_tenant(session, tenant_id=access.tenant_id))
        )


@router.patch("/tenants/{tenant}", operation_id="updateTenant")
def update_tenant(access: Manages, body: TenantUpdate) -> TenantDetail:
    """Update a tenant. Admit makes all changes or none.

    Omitted fields stay unchanged.
    """
    with access.change() as change:
        _require_match(change, access, access.tenant_id)
        _update_settings(change.session, access, body.model_dump(exclude_unset=True, exclude_none=True))
        row = tenants.require_tenant(change.session, tenant_id=access.tenant_id)
        return change.answer(_build_tenant_detail(access, change.session, row))


def _update_settings(session: Session, access: Access, changes: dict[str, Any]) -> None:
    who: dict[str, Any] = {"actor": access.actor, "tenant_id": access.tenant_id}
    texts = {name: ",".join(changes[name]) if name in changes else None for name in ("methods", "tls_versions")}
    offer = parse_offer(**texts)
    if offer != MethodOffer(None, None):
        tenants.update_method_offer(session, **who, offer=offer)
    if "name" in changes:
        tenants.rename_tenant(session, **who, name=changes["name"])
    if "replay_days" in changes:
        tenants.update_replay_days(session, **who, days=changes["replay_days"] or None)
    if "renewal_keeps_key" in changes:
        tenants.update_renewal(session, **who, keeps_key=changes["renewal_keeps_key"])
    if "status_failure" in changes:
        tenants.update_status_failure(session, **who, to=changes["status_failure"])
    if "nat_session_seconds" in changes:
        tenants.update_nat_session(session, **who, seconds=changes["nat_session_seconds"])
    if "realms" in changes:
        tenants.update_realms(session, **who, realms=changes["realms"])
    tenants.update_silence(session, **who, reports=changes.get("silent_reports"), days=changes.get("silent_days"))
    tenants.update_failure_limits(
        session,
        **who,
        limit=changes.get("failure_limit"),
        window_seconds=changes.get("failure_window_seconds"),
        password_limit=changes.get("password_failure_limit"),
        password_window_seconds=changes.get("password_failure_window_seconds"),
    )


@router.post("/tenants/{tenant}/suspend", operation_id="suspendTenant")
def suspend_tenant(access: Manages) -> TenantDetail:
    """Suspend a tenant. A suspended tenant admits no device.

    Only the level (tenant, MSP or platform) that suspended the tenant, or a higher level, can resume the tenant.
    """
    with access.change() as change:
        _require_match(change, access, access.tenant_id)
        row = tenants.suspend_tenant(
            change.session, actor=access.actor, tenant_id=access.tenant_id, level=_get_manage_level(access)
        )
        return change.answer(_build_tenant_detail(access, change.session, row))


@router.post("/tenants/{tenant}/resume", operation_id="resumeTenant")
def resume_tenant(access: Manages) -> TenantDetail:
    """Resume a suspended tenant.

    You cannot resume a tenant that a higher level suspended, or whose trial has ended. Use `restoreTenant` for a
    deleted tenant.
    """
    with access.change() as change:
        _require_match(change, access, access.tenant_id)
        row = tenants.resume_tenant(
            change.session,
            actor=access.actor,
            tenant_id=access.tenant_id,
            is_deletion=False,
            level=_get_manage_level(access),
        )
        return change.answer(_build_tenant_detail(access, change.session, row))


def _get_manage_level(access: Access) -> PermissionLevel:
    assert access.asked.tenant is not None
    return access.principal.level_on_tenant(access.asked.tenant, Permission.TENANT_MANAGE)


@router.delete("/msps/{msp}/tenants/{tenant}", operation_id="deleteTenant")
def delete_tenant(
    access: Deletes,
    tenant: _Key,
    days: Annotated[
        int | None,
        Query(
            ge=msps.DELETION_DAYS[0],
            le=msps.DELETION_DAYS[1],
            description="Days for which you can restore the tenant (default: the MSP's setting).",
        ),
    ] = None,
) -> TenantDetail:
    """Delete a tenant. The service of the tenant stops immediately.

    Admit deletes the tenant's data after `days`, or after the MSP's default. Until then you can restore the tenant.
    Audit entries stay.
    """
    with access.change() as change:
        tenant_id = _enter_named_tenant(change.session, access, tenant)
        _require_match(change, access, tenant_id)
        grace = days or msps.require_msp(change.session, msp_id=access.msp_id).deletion_days
        row = tenants.delete_tenant(
            change.session,
            actor=access.actor,
            tenant_id=tenant_id,
            purge_at=utc_now() + timedelta(days=grace),
            # With `days`, a tenant that is already being deleted is an error, because the first `days` would still
            # apply.
            is_new=days is not None,
        )
        return change.answer(_build_tenant_detail(access, change.session, row))


@router.post("/msps/{msp}/tenants/{tenant}/restore", operation_id="restoreTenant")
def restore_tenant(access: Deletes, tenant: _Key) -> TenantDetail:
    """Restore a deleted tenant before Admit deletes the tenant's data.

    The tenant's cell responds to NASes again, with unchanged settings.
    """
    with access.change() as change:
        tenant_id = _enter_named_tenant(change.session, access, tenant)
        _require_match(change, access, tenant_id)
        is_platform = Permission.TENANT_DELETE in access.principal.on_platform()
        level = PermissionLevel.PLATFORM if is_platform else PermissionLevel.MSP
        row = tenants.resume_tenant(change.session, actor=access.actor, tenant_id=tenant_id, level=level)
        return change.answer(_build_tenant_detail(access, change.session, row))


def _require_match(change: Change, access: Access, tenant_id: TenantId) -> None:
    row = tenants.require_tenant(change.session, tenant_id=tenant_id)
    lock_row(change.session, row)
    change.require_match(_build_tenant_detail(access, change.session, row))


def _enter_named_tenant(session: Session, access: Access, key: str) -> TenantId:
    """Return a tenant of the MSP. Raises TenantNotFound."""
    place = find_tenant(session, key)
    if place is None or place.msp_id != access.msp_id:
        raise tenants.TenantNotFound("The tenant does not exist.", place="tenant")
    enter_tenant(session, place.tenant_id)
    return place.tenant_id


def _build_tenant(row: TenantRow) -> Tenant:
    return Tenant(
        id=row.id,
        slug=row.slug,
        name=row.name,
        status=row.status,
        purge_at=row.purge_at,
        created_at=row.created_at,
        updated_at=row.updated_at,
    )


def _build_tenant_detail(access: Access, session: Session, row: TenantRow) -> TenantDetail:
    slot = cells.require_slot(session, tenant_id=row.id)
    address = cells.advertised_address(session, slot=slot, usual=get_settings(access.asked.request).radius_host)
    settings = {name: getattr(row, name) for name in TenantSettings.model_fields if name != "replay_days"}
    return TenantDetail(
        **_build_tenant(row).model_dump(),
        msp_id=row.msp_id,
        listeners=Listeners(address=address, auth_port=slot.auth_port, acct_port=slot.acct_port),
        settings=TenantSettings(**settings, replay_days=row.replay_days or 0),
    )
