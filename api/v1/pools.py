"""Pools of addresses of a tenant, which devices are given with their Access-Accept."""

from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from fastapi import APIRouter, Depends, Path, Query
from pydantic import BaseModel, Field
from sqlalchemy.orm import Session

from api.access import Access, ChangesTenant, ReadsTenant
from api.change import Change, Observed
from api.v1.inputs import Input, Omittable, Slug, body_references
from api.v1.paging import OrderedPaging, Page, sorted_by
from nac.accounts.effects import Effect
from nac.accounts.permissions import Permission
from nac.mac import display_mac
from nac.models import PoolAddress
from nac.pools import service as pools
from nac.pools.extent import ATTRIBUTE_BY_KIND, MAX_RANGES, PoolKind
from nac.pools.repository import LEASE_ORDERS, POOL_ORDERS

router = APIRouter(prefix="/tenants/{tenant}/pools", tags=["pools"])

_Pool = Annotated[str, Path(max_length=63)]
_Site = Annotated[str, Query(max_length=63, description="Slug: its own pool; else the whole tenant's.")]
_Ranges = Annotated[list[Annotated[str, Field(max_length=100)]], Field(max_length=MAX_RANGES)]
_WhenEmpty = Literal["deny", "without"]
_MaxReserved = 1_000
Reads = Annotated[Access, Depends(ReadsTenant(Permission.POOL_READ))]
Changes = Annotated[Access, Depends(ChangesTenant(Permission.POOL_MANAGE, Effect.FACTS))]


class Pool(BaseModel):
    id: UUID = Field(description="Id; it stays.")
    name: str = Field(description="Name, for people.")
    site: str | None = Field(description="Slug of the site; null: of the whole tenant.")
    kind: PoolKind = Field(description="What it gives.")
    attribute: str = Field(description="Attribute that a device gets it as.")
    ranges: list[str] = Field(description="Ranges of addresses, as CIDR or first-last.")
    exclusions: list[str] = Field(description="Addresses or ranges that are given to nobody.")
    prefix_length: int = Field(description="Length of what a device gets, in bits.")
    when_empty: _WhenEmpty = Field(
        description="What becomes of a device where no address is left: refused (deny), or admitted without one."
    )
    stock: int = Field(description="How many addresses a cell keeps ready.")
    grace_seconds: int = Field(description="Seconds for which a session that ended keeps its address.")
    quarantine_seconds: int = Field(description="Seconds for which an address that came back is given to nobody else.")
    size: int = Field(description="How many addresses it has.")
    used: int = Field(description="How many are in use.")
    free: int = Field(description="How many are free.")
    ready: int = Field(description="How many are in cells, for nobody yet.")
    quarantined: int = Field(description="How many wait in quarantine.")
    reserved: int = Field(description="How many are reserved.")
    leaving: int = Field(description="How many are taken out of the pool while somebody has them.")
    removing: bool = Field(description="It goes with its last address.")


class PoolDetail(Pool, Observed):
    cells: dict[str, dict[str, int]] = Field(description="By cell and state, how many addresses it holds.")

    def observed(self) -> set[str]:
        """Devices come and go."""
        return {"used", "free", "ready", "quarantined", "leaving", "cells"}


class PoolOptions(Input):
    when_empty: Omittable[_WhenEmpty] = Field(
        None, description="What becomes of a device where no address is left: refused (deny), or admitted without one."
    )
    stock: Omittable[int] = Field(None, ge=1, le=4096, description="How many addresses a cell keeps ready.")
    grace_seconds: Omittable[int] = Field(
        None, ge=60, le=86_400, description="Seconds for which a session that ended keeps its address."
    )
    quarantine_seconds: Omittable[int] = Field(
        None, ge=60, le=604_800, description="Seconds for which an address that came back is given to nobody else."
    )

    def options(self) -> pools.PoolOptions:
        return pools.PoolOptions(self.when_empty, self.stock, self.grace_seconds, self.quarantine_seconds)


class PoolInput(PoolOptions):
    name: Slug = Field(examples=["devices"], description="Name, for people.")
    site: Slug | None = Field(None, description="Slug of the site; null: of the whole tenant.")
    kind: PoolKind = Field("ipv4", description="What it gives.")
    ranges: _Ranges = Field(examples=[["10.1.0.0/24"]], description="Ranges of addresses, as CIDR or first-last.")
    exclusions: _Ranges = Field(default=[], description="Addresses or ranges that are given to nobody.")
    prefix_length: int | None = Field(
        None, ge=0, le=128, description="Of IPv6 prefixes; null: 64, of delegated ones 56."
    )


class PoolUpdate(PoolOptions):
    name: Omittable[Slug] = Field(
        None,
        description="What it is called from now on, in the path, too; not while a policy or a fallback names it (409).",
    )
    ranges: Omittable[_Ranges] = Field(None, description="In place of all it has.")
    exclusions: Omittable[_Ranges] = Field(None, description="Addresses or ranges that are given to nobody.")
    reserved: dict[str, Annotated[str, Field(max_length=100)] | None] = Field(
        default={},
        max_length=_MaxReserved,
        description="MAC address to the address that it alone gets; null takes that back.",
    )


class PoolLease(BaseModel):
    pool: str | None = Field(description="Name of the pool; null of one that is being removed.")
    address: str = Field(description="IP address.")
    mac: str | None = Field(description="MAC address of whose it is; null where it was taken away.")
    state: str = Field(description="How far it is.")
    given_at: datetime | None = Field(description="When it was given.")
    until: datetime | None = Field(description="Of a lease: when a session must hold it. Of a quarantine: its end.")
    reserved: bool = Field(description="Whether it is this device's alone.")
    leaving: bool = Field(description="Taken out of the pool while somebody has it.")


class LeaseRelease(Input):
    address: str = Field(max_length=100, examples=["10.1.0.17"], description="The address that is taken back.")


@router.get("", operation_id="listPools")
def list_pools(
    access: Reads,
    paging: Annotated[OrderedPaging, Depends(sorted_by(POOL_ORDERS))],
    text: Annotated[str, Query(max_length=200, description="A part of the name.")] = "",
    kind: PoolKind | None = None,
    site: Annotated[str, Query(max_length=63, description="Slug: its own pools alone.")] = "",
) -> Page[Pool]:
    """With how many of their addresses are where; there are 200 at most."""
    wanted = {"text": text, "kind": kind or "", "site": site}
    with access.read() as session:
        rows = pools.list_page(session, tenant_id=access.tenant_id, span=paging.span, **wanted)
        return paging.ordered(rows, lambda state: Pool(**_values(state)), entity=lambda state: state.pool)


@router.post("", status_code=201, operation_id="createPool")
def create_pool(access: Changes, body: PoolInput) -> PoolDetail:
    """A range is a network, whose own and broadcast addresses are left out, one address, or two with a dash."""
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
        return change.answer(_detail(change.session, access, row.name, site))


@router.get("/leases", operation_id="listPoolLeases")
def list_leases(
    access: Reads,
    paging: Annotated[OrderedPaging, Depends(sorted_by(LEASE_ORDERS))],
    pool: Annotated[str, Query(max_length=63)] = "",
    site: _Site = "",
    mac: Annotated[str, Query(max_length=40)] = "",
    address: Annotated[str, Query(max_length=100)] = "",
) -> Page[PoolLease]:
    """Who has which address; quarantined ones with who had them last."""
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
        return paging.ordered(rows, lambda row: _lease(row, names))


@router.post("/release", operation_id="releasePoolAddress")
def release_address(access: Changes, body: LeaseRelease) -> PoolLease:
    """Once no session holds it: after its quarantine anybody may get it."""
    with access.change() as change, body_references():
        names = pools.pool_names_by_id(change.session, tenant_id=access.tenant_id)
        row = pools.release_address(
            change.session, actor=access.actor, tenant_id=access.tenant_id, address=body.address
        )
        return change.answer(_lease(row, names))


@router.get("/{pool}", operation_id="getPool")
def get_pool(access: Reads, pool: _Pool, site: _Site = "") -> PoolDetail:
    with access.read() as session:
        return access.shown(_detail(session, access, pool, site))


@router.patch("/{pool}", operation_id="updatePool")
def update_pool(access: Changes, pool: _Pool, body: PoolUpdate, site: _Site = "") -> PoolDetail:
    """What is left out stays as it is. Devices keep addresses that leave the pool until they are gone themselves."""
    with access.change() as change:
        _require(change, access, pool, site)
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
        return change.answer(_detail(change.session, access, pool, site))


@router.delete("/{pool}", status_code=204, operation_id="deletePool")
def delete_pool(access: Changes, pool: _Pool, site: _Site = "") -> None:
    """Not while a policy names it. It goes when the last device has given up its address."""
    with access.change() as change:
        _require(change, access, pool, site)
        pools.delete_pool(change.session, actor=access.actor, tenant_id=access.tenant_id, name=pool, site=site)
        change.answer_nothing()


def _require(change: Change, access: Access, name: str, site: str) -> None:
    pools.require_pool(change.session, tenant_id=access.tenant_id, name=name, site=site, lock=True)
    change.require_match(_detail(change.session, access, name, site))


def _detail(session: Session, access: Access, name: str, site: str) -> PoolDetail:
    state = pools.get_pool_state(session, tenant_id=access.tenant_id, name=name, site=site)
    return PoolDetail(**_values(state), cells=pools.count_by_cell(session, pool=state.pool))


def _values(state: pools.PoolState) -> dict[str, Any]:
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


def _lease(row: PoolAddress, names: dict[UUID, str]) -> PoolLease:
    return PoolLease(
        pool=names.get(row.pool_id),
        address=row.address,
        mac=display_mac(row.mac) if row.mac and not row.released else None,
        state=row.state,
        given_at=row.decided_at,
        until=row.until,
        reserved=row.reserved_for is not None,
        leaving=row.leaving,
    )
