"""Address pools of a tenant, which assign addresses in Access-Accept."""

from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from fastapi import Depends, Path, Query
from pydantic import BaseModel, Field
from sqlalchemy.orm import Session

from api.access import Access, ChangesTenant, ReadsTenant
from api.change import Change, ObservedModel
from api.routes import NounRouter
from api.v1.inputs import Input, Omittable, Slug, body_example, body_examples, body_references
from api.v1.paging import OrderedPaging, Page, require_paging
from nac.kit.mac import display_mac
from nac.kit.permissions import Effect, Permission
from nac.models import PoolAddress
from nac.pools import service as pools
from nac.pools.extent import ATTRIBUTE_BY_KIND, MAX_RANGES, PoolKind
from nac.pools.repository import LEASE_ORDERS, POOL_ORDERS

router = NounRouter(
    prefix="/tenants/{tenant}/pools",
    tag="pools",
    description="Pools of addresses and prefixes that policies assign to devices.",
)

_Pool = Annotated[str, Path(max_length=63, description="Name of the address pool.")]
_Site = Annotated[
    str,
    Query(
        max_length=63, description="Slug of the site that owns the pool. Omit `site` for a pool of the whole tenant."
    ),
]
_Ranges = Annotated[list[Annotated[str, Field(max_length=100)]], Field(max_length=MAX_RANGES)]
_WhenEmpty = Literal["deny", "without"]
_MAX_RESERVED = 1_000
Reads = Annotated[Access, Depends(ReadsTenant(Permission.POOL_READ))]
Changes = Annotated[Access, Depends(ChangesTenant(Permission.POOL_MANAGE, Effect.FACTS))]


class Pool(BaseModel):
    id: UUID = Field(description="Permanent id of the pool.")
    name: str = Field(description="Name of the pool.")
    site: str | None = Field(description="Slug of the site that owns the pool; null for a pool of the whole tenant.")
    kind: PoolKind = Field(description="Kind of addresses in the pool.")
    attribute: str = Field(description="RADIUS attribute that contains the assigned address.")
    ranges: list[str] = Field(description="Ranges of addresses in the pool, as CIDR or first-last.")
    exclusions: list[str] = Field(description="Addresses or ranges that the pool does not assign.")
    prefix_length: int = Field(description="Length of the prefix that a device gets, in bits.")
    when_empty: _WhenEmpty = Field(
        description="Action if no address is free: reject the device (deny), or admit the device without an address "
        "(without)."
    )
    stock: int = Field(description="Number of addresses that a cell reserves in advance for new devices.")
    grace_seconds: int = Field(
        description="Seconds for which a device keeps the address after Access-Accept, until accounting reports the "
        "session."
    )
    quarantine_seconds: int = Field(
        description="Seconds for which no other device can get a returned address (quarantine)."
    )
    size: int = Field(description="Number of addresses in the pool.")
    used: int = Field(description="Number of addresses of the pool that devices use.")
    free: int = Field(description="Number of free addresses in the pool.")
    ready: int = Field(description="Number of addresses that cells have reserved in advance for new devices.")
    quarantined: int = Field(
        description="Number of returned addresses that no other device can get yet (see `quarantine_seconds`)."
    )
    reserved: int = Field(description="Number of addresses that are reserved for a MAC address.")
    leaving: int = Field(
        description="Number of addresses that devices still use after you removed the addresses from the pool."
    )
    removing: bool = Field(
        description="Whether the pool is being deleted. Admit deletes the pool when the last lease of the pool ends."
    )


class PoolDetail(Pool, ObservedModel):
    cells: dict[str, dict[str, int]] = Field(description="Number of addresses of the pool for each cell, by state.")

    def observed_fields(self) -> set[str]:
        """Return the fields that change when devices get or return addresses."""
        return {"used", "free", "ready", "quarantined", "leaving", "cells"}


class PoolOptions(Input):
    when_empty: Omittable[_WhenEmpty] = Field(
        None,
        description="Action if no address is free: reject the device (deny), or admit the device without an address "
        "(without).",
    )
    stock: Omittable[int] = Field(
        None, ge=1, le=4096, description="Number of addresses that a cell reserves in advance for new devices."
    )
    grace_seconds: Omittable[int] = Field(
        None,
        ge=60,
        le=86_400,
        description="Seconds for which a device keeps the address after Access-Accept, until accounting reports the "
        "session.",
    )
    quarantine_seconds: Omittable[int] = Field(
        None,
        ge=60,
        le=604_800,
        description="Seconds for which no other device can get a returned address (quarantine).",
    )

    def options(self) -> pools.PoolOptions:
        return pools.PoolOptions(self.when_empty, self.stock, self.grace_seconds, self.quarantine_seconds)


class PoolInput(PoolOptions):
    model_config = body_examples(
        (
            "ipv4",
            "Addresses",
            {"name": "devices", "ranges": ["10.1.0.0/24"], "exclusions": ["10.1.0.1"], "when_empty": "deny"},
        ),
        (
            "delegated",
            "Delegated prefixes of a site",
            {"name": "branches", "site": "main", "kind": "delegated", "ranges": ["2001:db8::/48"], "prefix_length": 56},
        ),
    )

    name: Slug = Field(examples=["devices"], description="Name of the pool.")
    site: Slug | None = Field(
        None, description="Slug of the site that owns the pool; null for a pool of the whole tenant."
    )
    kind: PoolKind = Field("ipv4", description="Kind of addresses in the pool.")
    ranges: _Ranges = Field(
        examples=[["10.1.0.0/24"]], description="Ranges of addresses in the pool, as CIDR or first-last."
    )
    exclusions: _Ranges = Field(default=[], description="Addresses or ranges that the pool does not assign.")
    prefix_length: int | None = Field(
        None, ge=0, le=128, description="Prefix length of an IPv6 pool; null for 64, or 56 for delegated prefixes."
    )


class PoolUpdate(PoolOptions):
    model_config = body_example({"stock": 64, "grace_seconds": 300})

    name: Omittable[Slug] = Field(
        None,
        description="New name of the pool, also in the path. Fails with 409 if a policy or fallback uses the pool.",
    )
    ranges: Omittable[_Ranges] = Field(
        None, description="Ranges of addresses that replace the existing ranges of the pool."
    )
    exclusions: Omittable[_Ranges] = Field(None, description="Addresses or ranges that the pool does not assign.")
    reserved: dict[str, Annotated[str, Field(max_length=100)] | None] = Field(
        default={},
        max_length=_MAX_RESERVED,
        description="Reserved addresses by MAC address; null removes the reservation of a MAC address.",
    )


class PoolLease(BaseModel):
    pool: str | None = Field(description="Name of the pool; null if the pool is being deleted.")
    address: str = Field(description="Leased IP address, or returned IP address in quarantine.")
    mac: str | None = Field(
        description="MAC address of the device that has or had the address; null if the address was released."
    )
    state: str = Field(description="State of the address.", json_schema_extra={"enum": ["leased", "quarantined"]})
    assigned_at: datetime | None = Field(description="Time when the device got the address.")
    until: datetime | None = Field(
        description="Time when the quarantine of the address ends, or when a lease without a session ends."
    )
    reserved: bool = Field(description="Whether the address is reserved for the device.")
    leaving: bool = Field(description="Whether you removed the address from the pool while a device uses the address.")


class LeaseRelease(Input):
    address: str = Field(max_length=100, examples=["10.1.0.17"], description="IP address to release.")


@router.get("", operation_id="listPools")
def list_pools(
    access: Reads,
    paging: Annotated[OrderedPaging, Depends(require_paging(POOL_ORDERS))],
    text: Annotated[str, Query(max_length=200, description="Part of the name of the pools to list.")] = "",
    kind: Annotated[PoolKind | None, Query(description="Kind of addresses in the pools to list.")] = None,
    site: Annotated[str, Query(max_length=63, description="Slug of the site that owns the pools to list.")] = "",
) -> Page[Pool]:
    """List address pools, with the number of addresses in each state.

    A tenant can have 200 pools.
    """
    filters = {"text": text, "kind": kind or "", "site": site}
    with access.read() as session:
        rows = pools.list_page(session, tenant_id=access.tenant_id, span=paging.span, **filters)
        return paging.ordered(rows, lambda state: Pool(**_describe_pool(state)), entity=lambda state: state.pool)


@router.post("", status_code=201, operation_id="createPool")
def create_pool(access: Changes, body: PoolInput) -> PoolDetail:
    """Create an address pool.

    A range is a network (CIDR), one address, or the first and last address with a dash. The network and broadcast
    addresses of a network are excluded.
    """
    site = body.site or ""
    with access.change() as change, body_references():
        row = pools.create_pool(
            change.session,
            actor=access.actor,
            tenant_id=access.tenant_id,
            site=site,
            options=body.options(),
            **body.model_dump(include={"name", "kind", "ranges", "exclusions", "prefix_length"}),
        )
        change.located(row.name, site=site)
        return change.answer(_build_detail(change.session, access, row.name, site))


@router.get("/leases", operation_id="listPoolLeases")
def list_leases(
    access: Reads,
    paging: Annotated[OrderedPaging, Depends(require_paging(LEASE_ORDERS))],
    pool: Annotated[str, Query(max_length=63, description="Name of the pool of the leases.")] = "",
    site: _Site = "",
    mac: Annotated[
        str, Query(max_length=40, description="MAC address of the device with the lease, in any notation.")
    ] = "",
    address: Annotated[
        str, Query(max_length=100, description="Leased IP address, or the beginning of the address.")
    ] = "",
) -> Page[PoolLease]:
    """List leased addresses and returned addresses in quarantine, with the last device of each address."""
    with access.read() as session:
        names = pools.pool_names_by_id(session, tenant_id=access.tenant_id)
        rows = pools.list_leases(
            session,
            tenant_id=access.tenant_id,
            pool=pool,
            site=site,
            mac=mac,
            address=address,
            span=paging.span,
        )
        return paging.ordered(rows, lambda row: _build_lease(row, names))


@router.post("/release", operation_id="releasePoolAddress")
def release_address(access: Changes, body: LeaseRelease) -> PoolLease:
    """Release an address that no session uses.

    Other devices can get the address after `quarantine_seconds`.
    """
    with access.change() as change, body_references():
        names = pools.pool_names_by_id(change.session, tenant_id=access.tenant_id)
        row = pools.release_address(
            change.session, actor=access.actor, tenant_id=access.tenant_id, address=body.address
        )
        return change.answer(_build_lease(row, names))


@router.get("/{pool}", operation_id="getPool")
def get_pool(access: Reads, pool: _Pool, site: _Site = "") -> PoolDetail:
    """Get an address pool, with the number of addresses in each state."""
    with access.read() as session:
        return access.shown(_build_detail(session, access, pool, site))


@router.patch("/{pool}", operation_id="updatePool")
def update_pool(access: Changes, pool: _Pool, body: PoolUpdate, site: _Site = "") -> PoolDetail:
    """Update an address pool.

    Omitted fields stay unchanged. If you remove an address that a device uses, the device keeps the address until
    the lease ends.
    """
    with access.change() as change:
        _require_match(change, access, pool, site)
        which: dict[str, Any] = {"actor": access.actor, "tenant_id": access.tenant_id, "site": site}
        if body.name is not None:
            pool = pools.rename_pool(change.session, **which, name=pool, new_name=body.name).name
        pools.update_pool(
            change.session,
            **which,
            name=pool,
            ranges=body.ranges,
            exclusions=body.exclusions,
            options=body.options(),
            reserved={mac: address or "" for mac, address in body.reserved.items()},
        )
        return change.answer(_build_detail(change.session, access, pool, site))


@router.delete("/{pool}", status_code=204, operation_id="deletePool")
def delete_pool(access: Changes, pool: _Pool, site: _Site = "") -> None:
    """Delete an address pool.

    You cannot delete a pool that a policy uses. Admit deletes the pool when the last lease of the pool ends.
    """
    with access.change() as change:
        _require_match(change, access, pool, site)
        pools.delete_pool(change.session, actor=access.actor, tenant_id=access.tenant_id, name=pool, site=site)
        change.set_empty_response()


def _require_match(change: Change, access: Access, name: str, site: str) -> None:
    pools.require_pool(change.session, tenant_id=access.tenant_id, name=name, site=site, lock=True)
    change.require_match(_build_detail(change.session, access, name, site))


def _build_detail(session: Session, access: Access, name: str, site: str) -> PoolDetail:
    state = pools.get_pool_state(session, tenant_id=access.tenant_id, name=name, site=site)
    return PoolDetail(**_describe_pool(state), cells=pools.count_by_cell(session, pool=state.pool))


def _describe_pool(state: pools.PoolState) -> dict[str, Any]:
    pool = state.pool
    columns = (
        "id",
        "name",
        "kind",
        "ranges",
        "exclusions",
        "prefix_length",
        "when_empty",
        "removing",
        *pools.OPTION_BOUNDS,
    )
    counts = ("size", "used", "free", "ready", "quarantined", "reserved", "leaving")
    return {
        **{name: getattr(pool, name) for name in columns},
        **{name: getattr(state, name) for name in counts},
        "site": state.site or None,
        "attribute": ATTRIBUTE_BY_KIND[pool.kind],
    }


def _build_lease(row: PoolAddress, names: dict[UUID, str]) -> PoolLease:
    return PoolLease(
        pool=names.get(row.pool_id),
        address=row.address,
        mac=display_mac(row.mac) if row.mac and not row.released else None,
        state=row.state,
        assigned_at=row.decided_at,
        until=row.until,
        reserved=row.reserved_for is not None,
        leaving=row.leaving,
    )
