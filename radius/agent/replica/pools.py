"""Pools in the replica: ready addresses of this cell, and the device of each lease."""

from collections.abc import Callable
from typing import Any

from nac.cellformat.replica.records import PoolLeaseRecord, PoolRecord, PoolStockRecord
from nac.cellformat.replica.writer import WriteBatch
from nac.kit.clock import epoch_microseconds

# Function from a pool's id to the name of its claim file; "" if the pool has none.
ClaimsFileLookup = Callable[[str], str]

# Order of ready addresses: first addresses that no device has had, then addresses released the longest ago. So a
# returning device probably gets its former address.
POOLS = """
SELECT p.id::text, p.kind, p.when_empty, coalesce(p.site_id::text, ''), p.name, coalesce(ready.numbers, '{}'),
    coalesce(ready.grants, '{}'), coalesce(ready.addresses, '{}')
FROM pools p CROSS JOIN LATERAL (
    SELECT array_agg(number) AS numbers, array_agg(grant_number) AS grants,
        array_agg(CASE family(address) WHEN 4 THEN host(address) ELSE address::text END) AS addresses
    FROM (
        SELECT a.number, a.grant_number, a.address FROM pool_addresses a
        WHERE a.pool_id = p.id AND a.cell_id = scope_cell_id() AND a.state = 'stock' AND NOT a.leaving
            AND a.reserved_for IS NULL
        ORDER BY a.mac IS NOT NULL, a.until NULLS FIRST, a.number LIMIT p.stock
    ) a
) ready
WHERE NOT p.removing AND p.tenant_id = %(tenant)s
"""
# A device can have several addresses for a while. A reserved address is preferred, then the address assigned last.
LEASES = """
SELECT a.pool_id::text, replace(a.mac::text, ':', ''), a.number, a.grant_number,
    CASE family(a.address) WHEN 4 THEN host(a.address) ELSE a.address::text END, a.ready
FROM (
    SELECT r.tenant_id, r.pool_id, r.number, r.reserved_for AS mac, r.grant_number, r.address, false AS ready
    FROM pool_addresses r
    WHERE r.reserved_for IS NOT NULL AND NOT r.leaving
        AND (r.state = 'free' OR r.state <> 'stock' AND r.mac = r.reserved_for)
    UNION ALL
    SELECT l.tenant_id, l.pool_id, l.number, l.mac, l.grant_number, l.address, l.state = 'stock'
    FROM pool_addresses l
    WHERE l.mac IS NOT NULL AND NOT l.released AND l.cell_id = scope_cell_id() AND l.state <> 'free' AND NOT l.leaving
        AND l.reserved_for IS NULL AND NOT EXISTS (
            SELECT FROM pool_addresses o
            WHERE o.tenant_id = l.tenant_id AND o.mac = l.mac AND o.pool_id = l.pool_id AND o.cell_id = l.cell_id
                AND o.state <> 'free' AND NOT o.released AND NOT o.leaving AND o.reserved_for IS NULL
                AND (coalesce(o.decided_at, '-infinity'), o.number) > (coalesce(l.decided_at, '-infinity'), l.number)
        ) AND NOT EXISTS (
            SELECT FROM pool_addresses r
            WHERE r.pool_id = l.pool_id AND r.reserved_for = l.mac AND NOT r.leaving
                AND (r.state = 'free' OR r.state <> 'stock' AND r.mac = r.reserved_for)
        )
) a
WHERE a.tenant_id = %(tenant)s
"""
# Selects more rows than necessary if devices of several pools changed, which is harmless.
LEASES_BY_KEYS = """
 AND a.mac = ANY (ARRAY(SELECT split_part(told, ':', 2)::macaddr FROM unnest(%(keys)s::text[]) told))
 AND a.pool_id = ANY (ARRAY(SELECT split_part(told, ':', 1)::uuid FROM unnest(%(keys)s::text[]) told))
"""


def no_claims_file(pool_id: str) -> str:
    """Return "" instead of the name of a claim file, for a cell that assigns no addresses."""
    return ""


def put_pool(batch: WriteBatch, tenant: int, row: tuple[Any, ...], claims: str) -> str:
    pool_id, kind, when_empty, site_id, name, numbers, grants, addresses = row
    ready = tuple(zip(numbers, grants, addresses, strict=True))
    record = PoolRecord(pool_id, kind, when_empty, claims, epoch_microseconds())
    batch.put_pool(tenant, record, PoolStockRecord(site_id, name, ready))
    return str(pool_id)


def put_lease(batch: WriteBatch, tenant: int, row: tuple[Any, ...]) -> str:
    pool_id, mac, *lease = row
    batch.put_pool_lease(tenant, pool_id, mac, PoolLeaseRecord(*lease))
    return f"{pool_id}:{mac}"


def delete_lease(batch: WriteBatch, tenant: int, key: str) -> None:
    pool_id, _, mac = key.partition(":")
    batch.delete_pool_lease(tenant, pool_id, mac)
