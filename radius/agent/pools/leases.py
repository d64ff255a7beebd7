"""State of pool addresses in PostgreSQL: free, ready (`stock`), leased to a device, or quarantined after a lease.

Statements lock several rows in the order of their keys, or skip locked rows (SKIP LOCKED). So the statements never
deadlock.

A lease ends if no session uses its address. But accounting may report such a session after the end of the lease. The
transaction that stores this session also takes the address back (`reclaim_addresses`). So two devices cannot get the
same address. Either the agent finds the session before it makes the address ready, or the transaction of the session
finds the ended lease.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import NamedTuple

import psycopg

from nac.kit.ids import CellId
from nac.pools.claims import Claim
from radius.agent.accounting_parser import ParsedAccounting

# Seconds between two checks of a lease whose address a session uses. A Stop causes a check at once.
RECHECK_SECONDS = 300
# A Stop that the agent stores within this time causes a check at once. The regular check covers Stops that arrive
# later.
STOP_DELAY_SECONDS = 5
MAX_ENDED = 1_000


class AddressAssignment(NamedTuple):
    """An address sent to a device in an Access-Accept."""

    tenant_id: str
    pool_id: str
    number: int
    mac: str
    # Time of the decision in epoch microseconds.
    at: int


# Store that a device has the address, whatever the state of the address. An assignment that arrives late does not
# affect a device that got the address later. If another device has the address, the lease stays with that device. The
# lease changes only if a session reports the address, because the device of this session keeps the address in any case.
_RECORD_ASSIGNMENTS = """
WITH given AS MATERIALIZED (
    SELECT * FROM unnest(%(tenants)s::uuid[], %(pools)s::uuid[], %(numbers)s::int[], %(macs)s::macaddr[],
        %(moments)s::timestamptz[]) AS given (tenant_id, pool_id, number, mac, at)
), locked AS MATERIALIZED (
    SELECT a.pool_id, a.number, a.tenant_id, a.address, p.kind, p.grace_seconds * interval '1 second' AS grace,
        a.state = 'leased' AND a.mac IS NOT NULL AND a.mac <> g.mac AS is_others, a.mac AS others, a.decided_at,
        g.mac, g.at
    FROM given g JOIN pools p ON p.id = g.pool_id AND p.tenant_id = g.tenant_id
    JOIN pool_addresses a ON a.pool_id = g.pool_id AND a.number = g.number
    WHERE g.at >= coalesce(a.decided_at, '-infinity')
    ORDER BY a.pool_id, a.number FOR UPDATE OF a
), judged AS MATERIALIZED (
    SELECT l.*, l.is_others AND (
        l.decided_at + l.grace > l.at
        OR EXISTS (SELECT FROM pool_address_holders(l.tenant_id, l.kind, l.address, l.others))
    ) AS is_twice, l.is_others AND EXISTS (
        SELECT FROM pool_address_holders(l.tenant_id, l.kind, l.address, NULL)
    ) AS is_told
    FROM locked l
), taken AS (
    UPDATE pool_addresses a SET
        state = 'leased', cell_id = %(cell)s, mac = j.mac, released = false, decided_at = j.at,
        until = greatest(CASE a.state WHEN 'leased' THEN a.until END, j.at + j.grace)
    FROM judged j WHERE a.pool_id = j.pool_id AND a.number = j.number AND (j.is_told OR j.is_twice IS NOT TRUE)
)
SELECT count(*) FROM judged WHERE is_twice
"""
# Find claims (radiusd assigned an address to a device) without a recorded decision. For ready addresses, include claims
# of a device that was known before (`OpenPool`), and claims from just before the address was withdrawn.
_UNRECORDED_CLAIMS = """
SELECT a.tenant_id::text, a.pool_id::text, a.number, c.mac, c.at
FROM unnest(%(numbers)s::int[], %(grants)s::bigint[], %(macs)s::text[], %(moments)s::bigint[])
    AS c (number, grant_number, mac, at)
JOIN pool_addresses a ON a.pool_id = %(pool)s AND a.number = c.number
WHERE CASE a.state
    WHEN 'stock' THEN a.grant_number = c.grant_number OR c.at + 1000000 > a.grant_number
    WHEN 'leased' THEN a.mac = c.mac::macaddr AND to_timestamp(c.at::float8 / 1e6) > a.decided_at
    ELSE a.mac IS DISTINCT FROM c.mac::macaddr AND a.grant_number = c.grant_number
        OR a.mac = c.mac::macaddr AND to_timestamp(c.at::float8 / 1e6) > a.decided_at END
"""
# Mark leases of devices whose session ended. The next check finds out whether another session holds the lease. ORDER BY
# makes PostgreSQL use the device's index; otherwise it reads all leases for each session (docs/adr/0014).
_MARK_ENDED_SESSIONS = """
WITH found AS MATERIALIZED (
    SELECT a.pool_id, a.number, max(s.stopped_at) AS stopped_at FROM sessions s CROSS JOIN LATERAL (
        SELECT a.pool_id, a.number FROM pool_addresses a
        WHERE a.tenant_id = s.tenant_id AND a.mac BETWEEN s.mac AND s.mac AND a.state = 'leased'
        ORDER BY a.mac
    ) a
    WHERE s.tenant_id = ANY (%(tenants)s) AND s.stopped_at >= %(since)s AND NOT ('stale' = ANY (s.flags))
    GROUP BY a.pool_id, a.number
), locked AS MATERIALIZED (
    SELECT a.pool_id, a.number FROM found f JOIN pool_addresses a ON a.pool_id = f.pool_id AND a.number = f.number
    WHERE a.state = 'leased' AND a.until > %(now)s AND f.stopped_at >= a.decided_at
    ORDER BY a.pool_id, a.number LIMIT %(most)s FOR UPDATE OF a SKIP LOCKED
)
UPDATE pool_addresses a SET until = %(now)s FROM locked l
WHERE a.pool_id = l.pool_id AND a.number = l.number
"""
# Lowest time for the next grant: one second after the last stored claim, because claims have times in whole seconds.
# Without this rule, a clock that was set back would block an address.
_GRANT_OF_LAST_CLAIM = "(extract(epoch FROM a.decided_at) * 1000000)::bigint + 1000000"
# A device keeps the address while it has a session with this address. If several devices have sessions, the current
# holder stays.
_END_LEASES = """
WITH due AS MATERIALIZED (
    SELECT a.pool_id, a.number, a.tenant_id, a.address, a.state, a.mac, a.released, a.reserved_for, a.leaving, p.kind,
        p.quarantine_seconds
    FROM pool_addresses a JOIN pools p ON p.id = a.pool_id
    WHERE a.tenant_id = ANY (%(tenants)s) AND a.state IN ('leased', 'quarantined') AND a.until <= %(now)s
        AND a.cell_id = %(cell)s AND a.pool_id <> ALL (%(young)s::uuid[])
    ORDER BY a.until LIMIT %(most)s FOR UPDATE OF a SKIP LOCKED
), looked AS MATERIALIZED (
    SELECT due.*, held.is_held IS TRUE AS held, held.mac AS held_by
    FROM due LEFT JOIN LATERAL (
        SELECT true AS is_held, h.mac FROM pool_address_holders(due.tenant_id, due.kind, due.address, due.mac) h LIMIT 1
    ) held ON true
)
UPDATE pool_addresses a SET
    state = next.state,
    cell_id = CASE next.state WHEN 'free' THEN NULL ELSE a.cell_id END,
    mac = CASE WHEN l.held THEN coalesce(l.held_by, a.mac) ELSE a.mac END,
    released = l.released AND NOT l.held,
    until = CASE next.state WHEN 'free' THEN %(clock)s ELSE %(now)s END + interval '1 second'
        * CASE WHEN l.held THEN %(look)s WHEN next.state = 'quarantined' THEN l.quarantine_seconds ELSE 0 END,
    grant_number = CASE WHEN next.state IN ('stock', 'free')
        THEN greatest(a.grant_number + 1, %(grant)s, :told) ELSE a.grant_number END
FROM looked l CROSS JOIN LATERAL (
    SELECT CASE WHEN l.held THEN 'leased' WHEN l.state = 'leased' THEN 'quarantined'
        WHEN l.leaving OR l.reserved_for IS NOT NULL THEN 'free' ELSE 'stock' END AS state
) next
WHERE a.pool_id = l.pool_id AND a.number = l.number
RETURNING a.state
""".replace(":told", _GRANT_OF_LAST_CLAIM)
# Withdraw addresses that must not be assigned any more: addresses of `pools` with lost claims, leaving or reserved
# addresses, and addresses of cells that the tenant has left. A device may just have taken a ready address, so ready
# addresses go into quarantine.
_WITHDRAW = """
WITH chosen AS MATERIALIZED (
    SELECT a.pool_id, a.number, a.state, p.quarantine_seconds
    FROM pool_addresses a JOIN pools p ON p.id = a.pool_id
    WHERE a.tenant_id = ANY (%(tenants)s) AND (
        (a.state = 'stock' AND (a.leaving OR a.reserved_for IS NOT NULL OR a.pool_id = ANY (%(pools)s)))
        OR (a.state <> 'free' AND a.cell_id IS DISTINCT FROM %(cell)s)
    )
    ORDER BY a.pool_id, a.number FOR UPDATE OF a SKIP LOCKED
)
UPDATE pool_addresses a SET
    state = CASE c.state WHEN 'stock' THEN 'quarantined' ELSE c.state END, cell_id = %(cell)s,
    released = a.released OR c.state = 'stock',
    until = CASE c.state WHEN 'stock' THEN %(now)s + c.quarantine_seconds * interval '1 second' ELSE a.until END
FROM chosen c WHERE a.pool_id = c.pool_id AND a.number = c.number
"""
_REFILL = """
WITH chosen AS MATERIALIZED (
    SELECT a.pool_id, a.number FROM pool_addresses a JOIN pools p ON p.id = a.pool_id
    WHERE a.pool_id = %(pool)s AND a.state = 'free' AND NOT a.leaving AND a.reserved_for IS NULL
        AND NOT EXISTS (SELECT FROM pool_address_holders(a.tenant_id, p.kind, a.address, a.mac))
    ORDER BY a.until NULLS FIRST, a.number LIMIT %(wanted)s FOR UPDATE OF a SKIP LOCKED
)
UPDATE pool_addresses a SET
    state = 'stock', cell_id = %(cell)s, grant_number = greatest(a.grant_number + 1, %(grant)s, :told)
FROM chosen c WHERE a.pool_id = c.pool_id AND a.number = c.number
""".replace(":told", _GRANT_OF_LAST_CLAIM)
_HAS_STOCK = "SELECT EXISTS (SELECT FROM pool_addresses WHERE pool_id = %s AND state = 'stock')"
_DELETE_DEPARTED = "SELECT clear_away_pools(%s)"


@contextmanager
def use_ordered_index(cursor: psycopg.Cursor) -> Iterator[None]:
    """Make PostgreSQL use the sorted index in `pool_address_holders`, for the statements of the block.

    PostgreSQL prefers a slow index if the statistics of `sessions` are missing, or are from a time when all
    sessions had ended.
    """
    cursor.execute("SET LOCAL enable_sort = off")
    yield
    cursor.execute("SET LOCAL enable_sort = on")


def record_assignments(cursor: psycopg.Cursor, cell_id: CellId, assignments: Iterable[AddressAssignment]) -> int:
    """Store assigned addresses. Returns the number of addresses that were assigned while another device had them.

    A result above 0 is a fault.
    """
    latest: dict[tuple[str, int], AddressAssignment] = {}
    for each in assignments:
        key = each.pool_id, each.number
        if key not in latest or latest[key].at <= each.at:
            latest[key] = each
    if not latest:
        return 0
    tenants, pools, numbers, macs, moments = map(list, zip(*latest.values(), strict=True))
    parameters = {
        "tenants": tenants,
        "pools": pools,
        "numbers": numbers,
        "macs": macs,
        "moments": [to_datetime(at) for at in moments],
        "cell": cell_id,
    }
    with use_ordered_index(cursor):
        row = cursor.execute(_RECORD_ASSIGNMENTS.encode(), parameters).fetchone()
    return int(row[0]) if row else 0


def list_unrecorded_claims(
    cursor: psycopg.Cursor, pool_id: str, claims: Sequence[tuple[int, Claim]]
) -> list[AddressAssignment]:
    """Return the pool's claims (addresses that radiusd assigned) without a recorded decision.

    Such claims exist if radiusd was killed before it wrote the record, or if the journal was full.
    """
    parameters = {
        "pool": pool_id,
        "numbers": [number for number, _ in claims],
        "grants": [claim.grant for _, claim in claims],
        "macs": [claim.mac for _, claim in claims],
        "moments": [claim.at * 1_000_000 for _, claim in claims],
    }
    return [AddressAssignment(*row) for row in cursor.execute(_UNRECORDED_CLAIMS.encode(), parameters).fetchall()]


def to_datetime(at: int) -> datetime:
    """Convert epoch microseconds to a datetime."""
    return datetime.fromtimestamp(at / 1_000_000, UTC)


def end_leases(
    cursor: psycopg.Cursor,
    cell_id: CellId,
    tenants: list[str],
    *,
    since: int,
    now: int,
    clock: int,
    young: Sequence[str] = (),
) -> int:
    """End leases whose address no session uses, and end quarantines. Returns the number of checked leases.

    Times are epoch microseconds. `now` is the time up to which the journal is shipped. Later accounting may still be
    waiting. `since` is the previous value of `now`, and `clock` is the machine's time.

    Skips the pools in `young`, whose current claim file was created after `now`, or became known to the module after
    `now`. Until then, the module may have assigned addresses with the previous claim file.
    """
    parameters = {
        "tenants": tenants,
        "cell": cell_id,
        "now": to_datetime(now),
        "clock": to_datetime(clock),
        "grant": now,
        "look": RECHECK_SECONDS,
        "since": to_datetime(since - STOP_DELAY_SECONDS * 1_000_000),
        "most": MAX_ENDED,
        "young": list(young),
    }
    cursor.execute(_MARK_ENDED_SESSIONS.encode(), parameters)
    with use_ordered_index(cursor):
        return cursor.execute(_END_LEASES.encode(), parameters).rowcount


def withdraw_stock(cursor: psycopg.Cursor, cell_id: CellId, tenants: list[str], *, now: int, lost: list[str]) -> int:
    """Withdraw addresses that must not be assigned any more. `lost` are pools whose claim files are lost."""
    parameters = {"tenants": tenants, "cell": cell_id, "now": to_datetime(now), "pools": lost}
    return cursor.execute(_WITHDRAW.encode(), parameters).rowcount


def refill_stock(cursor: psycopg.Cursor, cell_id: CellId, pool_id: str, *, wanted: int, grant: int) -> int:
    """Make up to `wanted` free addresses of the pool ready in the cell.

    Returns the number of addresses that are now ready.

    `grant` is the time up to which the journal is shipped (epoch microseconds). `grant` must be later than the creation
    of the pool's claim file.
    """
    parameters = {"pool": pool_id, "cell": cell_id, "wanted": wanted, "grant": grant}
    with use_ordered_index(cursor):
        return cursor.execute(_REFILL.encode(), parameters).rowcount


def has_stock(cursor: psycopg.Cursor, pool_id: str) -> bool:
    row = cursor.execute(_HAS_STOCK, (pool_id,)).fetchone()
    return row is not None and bool(row[0])


def delete_departed(cursor: psycopg.Cursor, *, until: int) -> None:
    """Delete addresses that were removed from their pool and have been free since before `until` (epoch microseconds).

    Also deletes pools that are being removed, once they are empty.
    """
    cursor.execute(_DELETE_DEPARTED, (to_datetime(until),))


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
