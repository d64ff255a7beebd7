from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import (
    ColumnElement,
    Row,
    Text,
    any_,
    cast,
    func,
    literal,
    or_,
    select,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY, INET, MACADDR
from sqlalchemy.orm import Session
from sqlalchemy.types import TypeEngine

from nac.kit.db.queries import contains_text, in_array
from nac.kit.db.sort_orders import PageSpan, SortOrders
from nac.kit.ids import TenantId
from nac.models import Cell, Pool, PoolAddress, Tenant

_KEY = (PoolAddress.pool_id, PoolAddress.number)
POOL_ORDERS = SortOrders(
    {"name": (Pool.name, Pool.id), "kind": (Pool.kind, Pool.id), "created_at": (Pool.created_at, Pool.id)}
)
LEASE_ORDERS = SortOrders({"pool": _KEY, "mac": (PoolAddress.mac, *_KEY), "until": (PoolAddress.until, *_KEY)})
# First and last address of each interval.
Bounds = Sequence[tuple[str, str]]

_IS_HELD = text(
    "SELECT EXISTS (SELECT FROM pool_address_holders("
    "CAST(:tenant AS uuid), :kind, CAST(:address AS inet), CAST(:mac AS macaddr)))"
)
_LEAVING_ELSEWHERE = text("""
SELECT CASE family(a.address) WHEN 4 THEN host(a.address) ELSE a.address::text END, p.name
FROM pool_addresses a JOIN pools p ON p.id = a.pool_id
WHERE a.tenant_id = :tenant AND a.leaving AND a.pool_id <> :pool AND EXISTS (
    SELECT FROM unnest(CAST(:firsts AS inet[]), CAST(:lasts AS inet[])) AS inside (first, last)
    WHERE family(a.address) = family(inside.first)
        AND host(network(a.address))::inet <= inside.last AND host(broadcast(a.address))::inet >= inside.first
)
ORDER BY a.address LIMIT 3
""")
_RESERVED_OUTSIDE = text("""
SELECT CASE family(a.address) WHEN 4 THEN host(a.address) ELSE a.address::text END FROM pool_addresses a
WHERE a.pool_id = :pool AND a.reserved_for IS NOT NULL AND NOT EXISTS (
    SELECT FROM unnest(CAST(:firsts AS inet[]), CAST(:lasts AS inet[])) AS inside (first, last)
    WHERE a.address BETWEEN inside.first AND inside.last
)
ORDER BY a.address LIMIT 3
""")
# PostgreSQL has no statistics of a new pool, so it would choose slow nested loops for joins. So this query has no join,
# and queries with a join use _JOIN_BY_HASH.
_INSERT_ADDRESSES = text("""
INSERT INTO pool_addresses (pool_id, number, tenant_id, address, grant_number)
SELECT :pool, row.number, :tenant, row.address, :grant
FROM unnest(
    ARRAY(
        SELECT address FROM unnest(CAST(:addresses AS inet[])) address
        EXCEPT SELECT a.address FROM pool_addresses a WHERE a.pool_id = :pool
        ORDER BY address
    ),
    ARRAY(
        SELECT generate_series(0, cardinality(CAST(:addresses AS inet[])) - 1
            + (SELECT count(*) FROM pool_addresses WHERE pool_id = :pool)) AS number
        EXCEPT SELECT a.number FROM pool_addresses a WHERE a.pool_id = :pool
        ORDER BY number
    )
) AS row (address, number)
WHERE row.address IS NOT NULL
""")
_JOIN_BY_HASH = text("SELECT set_config('enable_nestloop', :nested, true)")
# Finds the changed rows first, so that they are locked only during the write.
_REMOVE_OUTSIDE = text("""
WITH inside AS MATERIALIZED (
    SELECT a.number FROM unnest(CAST(:firsts AS inet[]), CAST(:lasts AS inet[])) AS bounds (first, last)
    JOIN pool_addresses a
        ON a.tenant_id = :tenant AND a.address BETWEEN bounds.first AND bounds.last AND a.pool_id = :pool
), changing AS MATERIALIZED (
    (
        SELECT number FROM pool_addresses WHERE pool_id = :pool AND NOT leaving
        EXCEPT SELECT number FROM inside
    ) UNION ALL (
        SELECT number FROM pool_addresses WHERE pool_id = :pool AND leaving
        INTERSECT SELECT number FROM inside
    )
), locked AS MATERIALIZED (
    SELECT a.number, NOT a.leaving AND a.state = 'free' AS is_gone
    FROM changing JOIN pool_addresses a ON a.pool_id = :pool AND a.number = changing.number
    ORDER BY a.number FOR UPDATE OF a
), gone AS (
    DELETE FROM pool_addresses a USING locked l WHERE a.pool_id = :pool AND a.number = l.number AND l.is_gone
)
UPDATE pool_addresses a SET leaving = NOT a.leaving
FROM locked l WHERE a.pool_id = :pool AND a.number = l.number AND NOT l.is_gone
""")


@dataclass(frozen=True, slots=True)
class LeaseFilter:
    pool_id: UUID | None = None
    mac: str = ""
    address: str = ""
    states: Sequence[str] = ("leased", "quarantined")


def lock_tenant(session: Session, tenant_id: TenantId) -> None:
    """Lock all pools of the tenant, because Admit checks a change of a pool against all other pools of the tenant."""
    session.execute(select(Tenant.id).where(Tenant.id == tenant_id).with_for_update(key_share=True)).one()


def list_all(session: Session, tenant_id: TenantId) -> Sequence[Pool]:
    query = select(Pool).where(Pool.tenant_id == tenant_id).order_by(Pool.name, Pool.site_id.nulls_first())
    return session.scalars(query).all()


def list_page(
    session: Session, tenant_id: TenantId, *, span: PageSpan, text: str, kind: str, site_id: UUID | None
) -> Sequence[Pool]:
    query = select(Pool).where(Pool.tenant_id == tenant_id)
    if text:
        query = query.where(contains_text(text, Pool.name))
    if kind:
        query = query.where(Pool.kind == kind)
    if site_id is not None:
        query = query.where(Pool.site_id == site_id)
    return session.scalars(span.of(query)).all()


def get(session: Session, tenant_id: TenantId, name: str, site_id: UUID | None) -> Pool | None:
    of_site = Pool.site_id.is_(None) if site_id is None else Pool.site_id == site_id
    return session.scalar(select(Pool).where(Pool.tenant_id == tenant_id, Pool.name == name, of_site))


def count_by_state(session: Session, tenant_id: TenantId, pool_ids: Collection[UUID]) -> dict[tuple[UUID, str], int]:
    """Count addresses by pool and state.

    The results for the additional states "leaving" and "reserved" count removed and reserved addresses of all states.
    """
    key = PoolAddress.pool_id
    query = (
        select(
            key,
            PoolAddress.state,
            func.count(),
            func.count().filter(PoolAddress.leaving),
            func.count().filter(PoolAddress.reserved_for.is_not(None)),
        )
        .where(PoolAddress.tenant_id == tenant_id, in_array(key, pool_ids))
        .group_by(key, PoolAddress.state)
    )
    found: dict[tuple[UUID, str], int] = {}
    for pool_id, state, number, leaving, reserved in session.execute(query):
        found[pool_id, state] = number
        found[pool_id, "leaving"] = found.get((pool_id, "leaving"), 0) + leaving
        found[pool_id, "reserved"] = found.get((pool_id, "reserved"), 0) + reserved
    return found


def count_by_cell(session: Session, tenant_id: TenantId, pool_id: UUID) -> Sequence[Row[str, str, int]]:
    """Count the pool's addresses that cells have. Each row contains a cell, a state and the number of addresses."""
    query = (
        select(Cell.name, PoolAddress.state, func.count())
        .join(Cell, Cell.id == PoolAddress.cell_id)
        .where(PoolAddress.tenant_id == tenant_id, PoolAddress.pool_id == pool_id)
        .group_by(Cell.name, PoolAddress.state)
        .order_by(Cell.name, PoolAddress.state)
    )
    return session.execute(query).all()


def lock_address(session: Session, tenant_id: TenantId, address: str) -> PoolAddress | None:
    query = select(PoolAddress).where(PoolAddress.tenant_id == tenant_id, PoolAddress.address == address)
    return session.scalar(query.with_for_update())


def lock_addresses(
    session: Session, pool: Pool, addresses: Sequence[str], macs: Sequence[str]
) -> Sequence[PoolAddress]:
    """Lock and return the pool's rows of `addresses` and the rows that are reserved for `macs`, by address number."""
    concerned = or_(
        PoolAddress.address == _any_of(addresses, INET()), PoolAddress.reserved_for == _any_of(macs, MACADDR())
    )
    query = select(PoolAddress).where(
        PoolAddress.tenant_id == pool.tenant_id, PoolAddress.pool_id == pool.id, concerned
    )
    return session.scalars(query.order_by(PoolAddress.number).with_for_update()).all()


def is_held(session: Session, row: PoolAddress, kind: str) -> bool:
    """Return whether a live session has the address. Cells use the same SQL function (`pool_address_holders`)."""
    return bool(session.scalar(_IS_HELD, _address_params(row) | {"kind": kind}))


def list_leaving_elsewhere(session: Session, pool: Pool, bounds: Bounds) -> Sequence[Row[str, str]]:
    """Return some addresses within `bounds` that were removed from another pool but are still used.

    Each row contains an address and the name of the other pool. `bounds` contains single addresses, not prefixes.
    """
    return session.execute(_LEAVING_ELSEWHERE, _bounds_params(pool, bounds)).all()


def list_reserved_outside(session: Session, pool: Pool, bounds: Bounds) -> Sequence[str]:
    """Return some reserved addresses outside `bounds`."""
    return session.scalars(_RESERVED_OUTSIDE, _bounds_params(pool, bounds)).all()


def insert_addresses(session: Session, pool: Pool, addresses: Sequence[str], *, grant: int) -> None:
    """Insert a row for each new address, with an unused address number."""
    given = {"tenant": pool.tenant_id, "pool": pool.id, "addresses": list(addresses), "grant": grant}
    session.execute(_INSERT_ADDRESSES, given)


def remove_outside(session: Session, pool: Pool, bounds: Bounds) -> None:
    """Remove the addresses outside `bounds`.

    Deletes the rows of free addresses outside `bounds`, and sets the flag `leaving` on all other rows outside `bounds`.
    Clears `leaving` on rows within `bounds`.
    """
    session.execute(_JOIN_BY_HASH, {"nested": "off"})
    session.execute(_REMOVE_OUTSIDE, _bounds_params(pool, bounds))
    session.execute(_JOIN_BY_HASH, {"nested": "on"})


def has_addresses(session: Session, pool: Pool) -> bool:
    return session.scalar(select(PoolAddress.number).where(PoolAddress.pool_id == pool.id).limit(1)) is not None


def _address_params(row: PoolAddress) -> dict[str, Any]:
    return {"tenant": row.tenant_id, "address": row.address, "mac": row.mac}


def _bounds_params(pool: Pool, bounds: Bounds) -> dict[str, Any]:
    firsts, lasts = [first for first, _ in bounds], [last for _, last in bounds]
    return {"tenant": pool.tenant_id, "pool": pool.id, "firsts": firsts, "lasts": lasts}


def _any_of(values: Sequence[str], of: TypeEngine[Any]) -> ColumnElement[Any]:
    """Return the values as one array parameter, so that the statement does not depend on the number of values."""
    return any_(cast(literal(list(values), ARRAY(Text())), ARRAY(of)))


def list_leases(session: Session, tenant_id: TenantId, chosen: LeaseFilter, *, span: PageSpan) -> Sequence[PoolAddress]:
    query = select(PoolAddress).where(PoolAddress.tenant_id == tenant_id, PoolAddress.state.in_(chosen.states))
    if chosen.pool_id is not None:
        query = query.where(PoolAddress.pool_id == chosen.pool_id)
    if chosen.mac:
        query = query.where(PoolAddress.mac == chosen.mac)
    if chosen.address:
        query = query.where(PoolAddress.address == chosen.address)
    return session.scalars(span.of(query)).all()
