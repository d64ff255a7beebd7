"""Query plans for addresses and sessions when statistics are outdated (docs/adr/0014)."""

import json
from contextlib import nullcontext

import pytest

from nac.kit.clock import epoch_microseconds
from nac.kit.db import CellScope, driver_connection, session_scope
from radius.agent.pools import leases
from radius.agent.pools.leases import to_datetime, use_ordered_index
from tests.agent.pool_cell import POOL

SECOND = 1_000_000
DEVICES = 2_000
ASKED = 500
_LEASE = """
UPDATE pool_addresses SET state = 'leased', cell_id = %s, mac = '02:00:00:00:00:00'::macaddr | ('00:00:00:00:'
    || substr(lpad(to_hex(number), 4, '0'), 1, 2) || ':' || substr(lpad(to_hex(number), 4, '0'), 3, 2))::macaddr,
    decided_at = now() - interval '1 hour', until = now() + interval '1 hour'
WHERE number < %s
"""
_BEGIN = """
INSERT INTO sessions
    (tenant_id, nas_key, session_id, mac_key, mac, started_at, updated_at, delegated_prefix, stopped_at)
SELECT tenant_id, 'nas', 's' || number, mac::text, mac, now() - interval '1 hour', now(), address,
    CASE WHEN %(ended)s THEN now() END
FROM pool_addresses WHERE state = 'leased'
"""


@pytest.fixture
def crowd(world, owner):
    """Add devices with one address each. Each has a session just ended and a live session.

    The statistics are from the time when all sessions had ended.
    """
    world.add_pool("homes", kind="delegated", ranges=["2001:db8::/45"], prefix_length=56)
    owner.execute("DELETE FROM pool_addresses USING pools p WHERE p.id = pool_id AND p.name = %s", (POOL,))
    owner.execute(_LEASE, (world.cell_id, DEVICES))
    owner.execute(_BEGIN, {"ended": True})
    owner.execute("ANALYZE sessions, pool_addresses")
    owner.execute(_BEGIN, {"ended": False})
    return world


def read(plan):
    """The number of session and address rows read."""
    looked = sum(
        plan.get(name, 0) for name in ("Actual Rows", "Rows Removed by Filter", "Rows Removed by Index Recheck")
    )
    mine = looked * plan["Actual Loops"] if plan.get("Relation Name") in ("sessions", "pool_addresses") else 0
    return mine + sum(map(read, plan.get("Plans", ())))


def test_queries_never_join_quadratically_with_old_statistics(crowd, owner):
    pool, tenant = owner.execute("SELECT id, tenant_id::text FROM pools WHERE name = 'homes'").fetchone()
    numbers, macs, addresses = zip(
        *owner.execute(
            "SELECT number, mac::text, address::text FROM pool_addresses WHERE number < %s", (ASKED,)
        ).fetchall(),
        strict=True,
    )
    now = epoch_microseconds()
    given = {
        "cell": crowd.cell_id,
        "pool": pool,
        "pools": [pool] * ASKED,
        "tenants": [tenant] * ASKED,
        "numbers": list(numbers),
        "macs": list(macs[1:] + macs[:1]),
        "addresses": list(addresses),
        "moments": [to_datetime(now)] * ASKED,
        "now": to_datetime(now),
        "clock": to_datetime(now),
        "since": to_datetime(now - 60 * SECOND),
        "grant": now,
        "look": 300,
        "wanted": ASKED,
        "most": ASKED,
        "young": [],
    }
    later = {"now": to_datetime(now + 7200 * SECOND)}
    owner.execute("UPDATE pool_addresses SET state = 'free', cell_id = NULL WHERE number >= %s", (DEVICES - ASKED,))
    for name, statement, way, more in (
        ("ended", leases._MARK_ENDED_SESSIONS, lambda _: nullcontext(), {}),
        ("reap", leases._END_LEASES, use_ordered_index, later),
        ("give", leases._RECORD_ASSIGNMENTS, use_ordered_index, {}),
        ("hear", leases._RECLAIM, use_ordered_index, {}),
        ("refill", leases._REFILL, use_ordered_index, {}),
    ):
        with session_scope(CellScope(crowd.cell_id), engine=crowd.engine) as session:
            cursor = driver_connection(session).cursor()
            with way(cursor):
                cursor.execute(b"EXPLAIN (ANALYZE, FORMAT JSON) " + statement.encode(), given | more)
                plan = cursor.fetchone()[0][0]["Plan"]
            session.rollback()
        assert read(plan) < 10 * DEVICES, f"{name}: {read(plan)} rows\n{json.dumps(plan, indent=1)}"
