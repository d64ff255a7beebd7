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
from nac.pools.extent import ATTRIBUTE, MAX_RANGES, Kind
from nac.pools.repository import LEASES, POOLS

router = APIRouter(prefix="/tenants/{tenant}/pools", tags=["pools"])

_Pool = Annotated[str, Path(max_length=63)]
_Site = Annotated[str, Query(max_length=63, description="Slug: its own pool; else the whole tenant's.")]
_Ranges = Annotated[list[Annotated[str, Field(max_length=100)]], Field(max_length=MAX_RANGES)]
_WhenEmpty = Literal["deny", "without"]
_MaxReserved = 1_000
Reads = Annotated[Access, Depends(ReadsTenant(Permission.POOL_READ))]
Changes = Annotated[Access, Depends(ChangesTenant(Permission.POOL_MANAGE, Effect.FACTS))]


class Pool(BaseModel):
    id: UUID
    name: str
    # Slug; null: of the whole tenant.
    site: str | None
    kind: Kind
    # What a device gets it as.
    attribute: str
    ranges: list[str]
    exclusions: list[str]
    # Of what a device gets.
    prefix_length: int
    when_empty: _WhenEmpty
    # How many addresses a cell keeps ready.
    stock: int
    grace_seconds: int
    quarantine_seconds: int
    size: int
    used: int
    free: int
    # In cells, for nobody yet.
    ready: int
    quarantined: int
    reserved: int
    # Taken out of the pool while somebody has them.
    leaving: int
    # It goes with its last address.
    removing: bool


class PoolDetail(Pool, Observed):
    # By cell and state, how many addresses it holds.
    cells: dict[str, dict[str, int]]

    def observed(self) -> set[str]:
        """Devices come and go."""
        return {"used", "free", "ready", "quarantined", "leaving", "cells"}


class PoolOptions(Input):
    when_empty: Omittable[_WhenEmpty] = None
    stock: Omittable[int] = Field(None, ge=1, le=4096)
    grace_seconds: Omittable[int] = Field(None, ge=60, le=86_400)
    quarantine_seconds: Omittable[int] = Field(None, ge=60, le=604_800)

    def options(self) -> pools.Options:
        return pools.Options(self.when_empty, self.stock, self.grace_seconds, self.quarantine_seconds)


class PoolInput(PoolOptions):
    name: Slug = Field(examples=["devices"])
    site: Slug | None = None
    kind: Kind = "ipv4"
    ranges: _Ranges = Field(examples=[["10.1.0.0/24"]])
    exclusions: _Ranges = Field(default=[])
    # Of IPv6 prefixes: 64, delegated ones 56, where it is not given.
    prefix_length: int | None = Field(None, ge=0, le=128)


class PoolUpdate(PoolOptions):
    # Not while a policy or a site's fallback names it.
    name: Omittable[Slug] = None
    # In place of all it has.
    ranges: Omittable[_Ranges] = None
    exclusions: Omittable[_Ranges] = None
    # MAC address to the address that it alone gets; null takes that back.
    reserved: dict[str, Annotated[str, Field(max_length=100)] | None] = Field(default={}, max_length=_MaxReserved)


class PoolLease(BaseModel):
    # null of one that is being removed.
    pool: str | None
    address: str
    # Whose it is; null where it was taken away.
    mac: str | None
    state: str
    given_at: datetime | None
    # Of a lease: when a session must hold it. Of a quarantine: its end.
    until: datetime | None
    reserved: bool
    leaving: bool


class LeaseRelease(Input):
    address: str = Field(max_length=100, examples=["10.1.0.17"])


@router.get("", operation_id="listPools")
def list_pools(
    access: Reads,
    paging: Annotated[OrderedPaging, Depends(sorted_by(POOLS))],
    text: Annotated[str, Query(max_length=200, description="A part of the name.")] = "",
    kind: Kind | None = None,
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
        row = pools.add_pool(
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
    paging: Annotated[OrderedPaging, Depends(sorted_by(LEASES))],
    pool: Annotated[str, Query(max_length=63)] = "",
    site: _Site = "",
    mac: Annotated[str, Query(max_length=40)] = "",
    address: Annotated[str, Query(max_length=100)] = "",
) -> Page[PoolLease]:
    """Who has which address; quarantined ones with who had them last."""
    with access.read() as session:
        names = pools.names_of(session, tenant_id=access.tenant_id)
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
        names = pools.names_of(change.session, tenant_id=access.tenant_id)
        row = pools.release(change.session, actor=access.actor, tenant_id=access.tenant_id, address=body.address)
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
        pools.set_pool(
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
        pools.remove_pool(change.session, actor=access.actor, tenant_id=access.tenant_id, name=pool, site=site)
        change.answer_nothing()


def _require(change: Change, access: Access, name: str, site: str) -> None:
    pools.require_pool(change.session, tenant_id=access.tenant_id, name=name, site=site, lock=True)
    change.require_match(_detail(change.session, access, name, site))


def _detail(session: Session, access: Access, name: str, site: str) -> PoolDetail:
    state = pools.pool_state(session, tenant_id=access.tenant_id, name=name, site=site)
    return PoolDetail(**_values(state), cells=pools.cells_of(session, pool=state.pool))


def _values(state: pools.PoolState) -> dict[str, Any]:
    pool = state.pool
    columns = ("id", "name", "kind", "ranges", "exclusions", "prefix_length", "when_empty", "removing", *pools.BOUNDS)
    counts = ("size", "used", "free", "ready", "quarantined", "reserved", "leaving")
    return {
        **{name: getattr(pool, name) for name in columns},
        **{name: getattr(state, name) for name in counts},
        "site": state.site or None,
        "attribute": ATTRIBUTE[pool.kind],
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
