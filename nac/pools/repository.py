from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import Row, delete, func, select, tuple_, update
from sqlalchemy.orm import Session

from nac.ids import TenantId
from nac.models import Cell, Pool, PoolAddress, Tenant

# (pool id, number)
AddressKey = tuple[UUID, int]
_FIRST: AddressKey = (UUID(int=0), -1)


@dataclass(frozen=True, slots=True)
class LeaseFilter:
    pool_id: UUID | None = None
    mac: str = ""
    address: str = ""
    states: Sequence[str] = ("leased", "quarantined")


def lock_tenant(session: Session, tenant_id: TenantId) -> None:
    """One change of pools at a time: each is compared with all the others."""
    session.execute(select(Tenant.id).where(Tenant.id == tenant_id).with_for_update(key_share=True)).one()


def list_all(session: Session, tenant_id: TenantId) -> Sequence[Pool]:
    query = select(Pool).where(Pool.tenant_id == tenant_id).order_by(Pool.name, Pool.site_id.nulls_first())
    return session.scalars(query).all()


def get(session: Session, tenant_id: TenantId, name: str, site_id: UUID | None) -> Pool | None:
    of_site = Pool.site_id.is_(None) if site_id is None else Pool.site_id == site_id
    return session.scalar(select(Pool).where(Pool.tenant_id == tenant_id, Pool.name == name, of_site))


def counts(session: Session, tenant_id: TenantId) -> dict[tuple[UUID, str], int]:
    """How many addresses of each pool are in each state; "leaving" and "reserved" count across states."""
    key = PoolAddress.pool_id
    query = (
        select(
            key,
            PoolAddress.state,
            func.count(),
            func.count().filter(PoolAddress.leaving),
            func.count().filter(PoolAddress.reserved_for.is_not(None)),
        )
        .where(PoolAddress.tenant_id == tenant_id)
        .group_by(key, PoolAddress.state)
    )
    found: dict[tuple[UUID, str], int] = {}
    for pool_id, state, number, leaving, reserved in session.execute(query):
        found[pool_id, state] = number
        found[pool_id, "leaving"] = found.get((pool_id, "leaving"), 0) + leaving
        found[pool_id, "reserved"] = found.get((pool_id, "reserved"), 0) + reserved
    return found


def by_cell(session: Session, tenant_id: TenantId, pool_id: UUID) -> Sequence[Row[str, str, int]]:
    """Cell, state and number of the addresses of a pool that cells hold."""
    query = (
        select(Cell.name, PoolAddress.state, func.count())
        .join(Cell, Cell.id == PoolAddress.cell_id)
        .where(PoolAddress.tenant_id == tenant_id, PoolAddress.pool_id == pool_id)
        .group_by(Cell.name, PoolAddress.state)
        .order_by(Cell.name, PoolAddress.state)
    )
    return session.execute(query).all()


def locked_addresses(session: Session, pool: Pool) -> Sequence[PoolAddress]:
    """All of a pool, in the order in which everybody locks them."""
    query = select(PoolAddress).where(PoolAddress.tenant_id == pool.tenant_id, PoolAddress.pool_id == pool.id)
    return session.scalars(query.order_by(PoolAddress.number).with_for_update()).all()


def locked_address(session: Session, tenant_id: TenantId, address: str) -> PoolAddress | None:
    query = select(PoolAddress).where(PoolAddress.tenant_id == tenant_id, PoolAddress.address == address)
    return session.scalar(query.with_for_update())


def addresses_elsewhere(session: Session, pool: Pool, addresses: Sequence[str]) -> Sequence[Row[str, str]]:
    """Address and name of the pool, of the first few of `addresses` that another pool of the tenant still has."""
    query = (
        select(PoolAddress.address, Pool.name)
        .join(Pool, Pool.id == PoolAddress.pool_id)
        .where(
            PoolAddress.tenant_id == pool.tenant_id, PoolAddress.address.in_(addresses), PoolAddress.pool_id != pool.id
        )
        .order_by(PoolAddress.address)
        .limit(3)
    )
    return session.execute(query).all()


def delete_addresses(session: Session, pool: Pool, numbers: Sequence[int]) -> None:
    session.execute(delete(PoolAddress).where(PoolAddress.pool_id == pool.id, PoolAddress.number.in_(numbers)))


def mark_leaving(session: Session, pool: Pool, numbers: Sequence[int], *, leaving: bool) -> None:
    session.execute(
        update(PoolAddress)
        .where(PoolAddress.pool_id == pool.id, PoolAddress.number.in_(numbers))
        .values(leaving=leaving)
    )


def list_leases(
    session: Session, tenant_id: TenantId, chosen: LeaseFilter, *, after: AddressKey | None, limit: int
) -> Sequence[PoolAddress]:
    query = select(PoolAddress).where(PoolAddress.tenant_id == tenant_id, PoolAddress.state.in_(chosen.states))
    if chosen.pool_id is not None:
        query = query.where(PoolAddress.pool_id == chosen.pool_id)
    if chosen.mac:
        query = query.where(PoolAddress.mac == chosen.mac)
    if chosen.address:
        query = query.where(PoolAddress.address == chosen.address)
    key = tuple_(PoolAddress.pool_id, PoolAddress.number)
    return session.scalars(
        query.where(key > (after or _FIRST)).order_by(PoolAddress.pool_id, PoolAddress.number).limit(limit)
    ).all()
