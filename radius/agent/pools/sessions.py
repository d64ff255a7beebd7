"""Takes back pool addresses that late accounting reports as in use.

A lease ends if no session uses its address. Accounting may report a session after the end of the lease. The transaction
that stores such a session also takes the address back. So two devices cannot get the same address. Either the agent
finds the session before it makes the address ready, or the transaction of the session finds the ended lease.
"""

from collections.abc import Iterable

import psycopg

from nac.kit.ids import CellId
from radius.agent.accounting_parser import ParsedAccounting
from radius.agent.pools.leases import RECHECK_SECONDS, to_datetime, use_ordered_index

_TENANTS_WITH_POOLS = "SELECT DISTINCT tenant_id::text FROM pools"
# A session without an address holds the last address of its device, so look up the MAC address, too.
_RECLAIM = """
WITH told AS MATERIALIZED (
    SELECT *
    FROM unnest(%(tenants)s::uuid[], %(macs)s::macaddr[], %(addresses)s::inet[]) AS told (tenant_id, mac, address)
), found AS MATERIALIZED (
    SELECT a.pool_id, a.number FROM told
    JOIN pool_addresses a ON a.tenant_id = told.tenant_id AND a.address = told.address WHERE a.state <> 'leased'
    UNION
    SELECT a.pool_id, a.number FROM told
    JOIN pool_addresses a ON a.tenant_id = told.tenant_id AND a.mac = told.mac WHERE a.state <> 'leased'
), locked AS MATERIALIZED (
    SELECT a.pool_id, a.number, a.tenant_id, a.address, a.mac, p.kind
    FROM found JOIN pool_addresses a USING (pool_id, number) JOIN pools p ON p.id = a.pool_id
    WHERE a.state <> 'leased'
    ORDER BY a.pool_id, a.number FOR UPDATE OF a
)
UPDATE pool_addresses a SET
    state = 'leased', cell_id = %(cell)s, mac = coalesce(held.mac, a.mac), released = false,
    until = %(now)s + interval '1 second' * %(look)s
FROM locked l CROSS JOIN LATERAL (
    SELECT h.mac FROM pool_address_holders(l.tenant_id, l.kind, l.address, l.mac) h LIMIT 1
) held
WHERE a.pool_id = l.pool_id AND a.number = l.number
"""


def reclaim_addresses(cursor: psycopg.Cursor, cell_id: CellId, heard: Iterable[ParsedAccounting], *, now: int) -> int:
    """Take back the addresses that the sessions in `heard` use. Returns the number of addresses.

    Call this function after the sessions of the batch are stored. `now` is the time up to which the agent has read the
    journal (epoch microseconds).
    """
    with_pools = {row[0] for row in cursor.execute(_TENANTS_WITH_POOLS)}
    usages = [
        (usage.tenant_id, usage.mac or None, address or None)
        for usage in heard
        if usage.tenant_id in with_pools
        for address in {usage.framed_ip, usage.framed_prefix, usage.delegated_prefix}
    ]
    if not usages:
        return 0
    tenants, macs, addresses = map(list, zip(*usages, strict=True))
    parameters = {
        "tenants": tenants,
        "macs": macs,
        "addresses": addresses,
        "cell": cell_id,
        "now": to_datetime(now),
        "look": RECHECK_SECONDS,
    }
    with use_ordered_index(cursor):
        return cursor.execute(_RECLAIM.encode(), parameters).rowcount
