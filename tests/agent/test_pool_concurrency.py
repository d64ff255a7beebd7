"""Concurrent use of the same pools: no deadlock, no lock waits, and no address leased twice."""

import random
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from psycopg import sql
from sqlalchemy import text

from nac.kit.clock import epoch_microseconds
from nac.kit.db import TenantScope, session_scope
from nac.kit.errors import InvalidInput
from nac.pools.extent import MAX_ADDRESSES
from nac.pools.service import PoolOptions, create_pool, require_pool, update_pool
from radius.agent.accounting_parser import parse_accounting
from radius.agent.pools import leases
from tests.agent.journal_records import accounting
from tests.factories.tenancy import ACTOR

SECOND = 1_000_000
CELLS, WORKERS, ROUNDS = 3, 8, 25
# Numbers of addresses that sessions report without a lease.
TOLD_FROM = 440
BEGIN = """
INSERT INTO sessions (tenant_id, nas_key, session_id, mac_key, mac, started_at, updated_at, framed_ip)
VALUES (%s, 'nas', %s, %s, %s, now(), now(), %s)
"""
READY_AND_HELD = """
SELECT count(*) FROM pool_addresses a JOIN sessions s ON s.tenant_id = a.tenant_id AND s.framed_ip = a.address
WHERE a.state = 'stock' AND s.stopped_at IS NULL
"""


@pytest.fixture
def pool(app_engine, alpha):
    with session_scope(TenantScope(alpha.id), engine=app_engine) as session:
        return create_pool(session, actor=ACTOR, tenant_id=alpha.id, name="guests", ranges=["10.9.0.0/23"]).id


@pytest.fixture
def cell_ids(owner, pool):
    """Three cells with one pool, as during a tenant's move."""
    rows = "INSERT INTO cells (name, host) SELECT 'cell-' || number, '' FROM generate_series(2, %s) number RETURNING id"
    return [row[0] for row in owner.execute(rows, (CELLS + 1,))]


def test_blocks_are_leased_assigned_and_reaped_concurrently(database, app_engine, alpha, pool, cell_ids, owner):
    """Blocks of addresses are leased, assigned and expired by several workers at once.

    Each worker is the agent of one cell and assigns its ready addresses. Another worker changes the pool meanwhile. The
    workers connect as the owner, without row-level security, because a tenant normally has one cell.
    """
    given, lock = Counter(), threading.Lock()
    clock = epoch_microseconds()

    def work(number):
        cell_id, chance = cell_ids[number % CELLS], random.Random(number)
        with psycopg.connect(database.owner_url) as connection:
            connection.execute("SET statement_timeout = '20s'")
            connection.commit()  # house: allow commit -- the test's own connection
            for turn in range(ROUNDS):
                now = clock + turn * 40 * SECOND
                one_turn(connection.cursor(), cell_id, chance, now, f"{number:04x}{turn:08x}")
                connection.commit()  # house: allow commit -- the test's own connection

    def one_turn(cursor, cell_id, chance, now, mac):
        leases.refill_stock(cursor, cell_id, str(pool), wanted=chance.randrange(1, 40), grant=now)
        cursor.connection.commit()
        ready = cursor.execute(
            "SELECT number, grant_number FROM pool_addresses WHERE cell_id = %s AND state = 'stock' AND number < %s "
            "ORDER BY random() LIMIT 8",
            (cell_id, TOLD_FROM),
        ).fetchall()
        with lock:
            # The claims file ensures that each grant is used once.
            fresh = [each for each in ready if not given[each]]
            given.update(fresh)
        claims = [
            leases.AddressAssignment(str(alpha.id), str(pool), taken, f"{mac[:10]}{place:02x}", now)
            for place, (taken, _) in enumerate(fresh)
        ]
        chance.shuffle(claims)
        twice = leases.record_assignments(cursor, cell_id, claims)
        assert twice == 0
        cursor.connection.commit()
        leases.end_leases(cursor, cell_id, [str(alpha.id)], since=now, now=now + 700 * SECOND, clock=now)

    def tell():
        """Begin and end sessions with unassigned addresses. Each is stored and published in one transaction."""
        with psycopg.connect(database.owner_url) as connection:
            cursor, chance = connection.cursor(), random.Random(0)
            for turn in range(CELLS * ROUNDS):
                number = chance.randrange(TOLD_FROM, 510)
                address, mac = f"10.9.{(number + 1) // 256}.{(number + 1) % 256}", f"02c0{turn:08x}"
                cursor.execute(BEGIN, (alpha.id, f"s{turn}", mac, mac, address))
                said = parse_accounting(accounting(alpha, "Start", station=mac, Framed_IP_Address=address))
                leases.reclaim_addresses(cursor, cell_ids[turn % CELLS], [said], now=clock + turn * 13 * SECOND)
                connection.commit()  # house: allow commit -- the test's own connection
                if turn % 3 == 0:
                    cursor.execute("UPDATE sessions SET stopped_at = now() WHERE session_id = %s", (f"s{turn - 3}",))
                    connection.commit()  # house: allow commit -- the test's own connection

    def change():
        for turn in range(6):
            ranges = ["10.9.0.0/23"] if turn % 2 else ["10.9.0.0/24"]
            with session_scope(TenantScope(alpha.id), engine=app_engine) as session:
                update_pool(
                    session, actor=ACTOR, tenant_id=alpha.id, name="guests", ranges=ranges, options=PoolOptions()
                )

    with ThreadPoolExecutor(WORKERS + 2) as threads:
        working = [threads.submit(work, number) for number in range(WORKERS)]
        for each in [*working, *map(threads.submit, (change, tell))]:
            each.result(120)
    assert max(given.values()) == 1
    assert len(given) > 100
    # In any order of events, a reported address belongs to one device.
    assert owner.execute(READY_AND_HELD).fetchone() == (0,)
    # No row was lost, and no row remains in a temporary state.
    homeless = "SELECT count(*) FROM pool_addresses WHERE (cell_id IS NULL) <> (state = 'free')"
    assert owner.execute(homeless).fetchone() == (0,)
    of_pool = "SELECT count(*) FROM pool_addresses WHERE NOT leaving"
    assert owner.execute(of_pool).fetchone() == (510,)


def test_locked_rows_are_skipped(database, alpha, pool, cell_ids, owner):
    with psycopg.connect(database.owner_url) as other, psycopg.connect(database.owner_url) as connection:
        other.execute("SELECT FROM pool_addresses WHERE number < 500 FOR UPDATE")
        cursor = connection.cursor()
        cursor.execute("SET lock_timeout = '2s'")
        now = epoch_microseconds()
        assert leases.refill_stock(cursor, cell_ids[0], str(pool), wanted=100, grant=now) == 10
        cursor.execute("UPDATE pool_addresses SET state = 'leased', until = to_timestamp(0) WHERE number >= 500")
        assert leases.end_leases(cursor, cell_ids[0], [str(alpha.id)], since=now, now=now, clock=now) == 10
        connection.rollback()


def test_ended_session_waits_for_no_pool_update(database, app_engine, alpha, pool, cell_ids, owner):
    """PostgreSQL checks foreign keys again if one transaction updates a row twice.

    The pool update must not lock rows that this check needs, because the two transactions would deadlock.
    """
    owner.execute(
        "UPDATE pool_addresses SET state = 'leased', cell_id = %s, mac = '02:c0:00:00:00:01', until = 'infinity', "
        "decided_at = now() - interval '1 minute' WHERE number = 500",
        (cell_ids[0],),
    )
    owner.execute(BEGIN, (alpha.id, "s1", "02c000000001", "02c000000001", "10.9.1.245"))
    owner.execute("UPDATE sessions SET stopped_at = now()")
    now = epoch_microseconds() + SECOND
    with (
        session_scope(TenantScope(alpha.id), engine=app_engine) as session,
        psycopg.connect(database.owner_url) as connection,
    ):
        require_pool(session, tenant_id=alpha.id, name="guests", lock=True)
        cursor = connection.cursor()
        cursor.execute("SET lock_timeout = '2s'")
        since = now - 10 * SECOND
        assert leases.end_leases(cursor, cell_ids[0], [str(alpha.id)], since=since, now=now, clock=now) == 1
        connection.rollback()


def test_pool_update_locks_no_unchanged_row(database, app_engine, alpha, pool, owner):
    """A lock would delay the cells that assign addresses until the update ends."""
    first = owner.execute("SELECT ctid FROM pool_addresses WHERE number = 0").fetchone()

    def change(**what):
        with session_scope(TenantScope(alpha.id), engine=app_engine) as session:
            session.execute(text("SET LOCAL lock_timeout = '5s'"))
            update_pool(session, actor=ACTOR, tenant_id=alpha.id, name="guests", options=PoolOptions(), **what)

    with psycopg.connect(database.owner_url) as other:
        other.execute("SELECT FROM pool_addresses WHERE number < 500 FOR UPDATE")
        change(exclusions=["10.9.1.250"], reserved={"02a0c0000001": "10.9.1.248"})
        change(ranges=["10.9.0.0/23", "10.8.0.0/30"], exclusions=[])
        other.rollback()
    assert owner.execute("SELECT ctid FROM pool_addresses WHERE number = 0").fetchone() == first
    assert owner.execute("SELECT count(*), max(number) FROM pool_addresses").fetchone() == (512, 511)


@pytest.mark.long
def test_largest_pool_is_created_and_updated(app_engine, alpha, owner):
    def call(function, **what):
        with session_scope(TenantScope(alpha.id), engine=app_engine) as session:
            return function(session, actor=ACTOR, tenant_id=alpha.id, name="homes", **what)

    def count(where="true"):
        counted = sql.SQL("SELECT count(*) FROM pool_addresses WHERE {}").format(sql.SQL(where))
        return owner.execute(counted).fetchone()[0]

    call(create_pool, kind="delegated", ranges=["2001:db8::/40"])
    assert count() == MAX_ADDRESSES
    # Addresses in use leave the pool when released. Other addresses leave it at once.
    owner.execute("UPDATE pool_addresses SET state = 'quarantined', mac = '02:00:00:00:00:01' WHERE number % 2 = 0")
    call(update_pool, ranges=["2001:db9::/48"])
    assert (count("leaving"), count("NOT leaving")) == (MAX_ADDRESSES // 2, 256)
    with pytest.raises(InvalidInput, match="1,048,576 addresses"):
        call(create_pool, kind="delegated", ranges=["2001:db8::/36"])
