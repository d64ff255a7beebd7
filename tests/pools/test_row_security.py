"""Isolation of pools between tenants, and from other cells."""

import psycopg
import pytest
from sqlalchemy import Engine

from nac.kit.db import CellScope, TenantScope, driver_connection, session_scope
from nac.kit.errors import ScopeViolation, SeveralMistakes
from nac.pools.service import (
    PoolNotFound,
    PoolOptions,
    create_pool,
    list_leases,
    list_pools,
    release_address,
    update_pool,
)
from radius.agent.pools import leases
from tests.factories.tenancy import ACTOR, make_cell, make_platform, make_tenant
from tests.row_snapshots import snapshotted

ANNA = "02a0c0000001"


@pytest.fixture
@snapshotted
def two_tenants(app_engine: Engine, cell_engine: Engine):
    """Two tenants in separate cells. Each has a pool, and the pools have equal names and addresses."""
    platform = make_platform(app_engine, cell_engine, slots=1)
    alpha = make_tenant(app_engine, platform, "alpha")
    other_cell = make_cell(cell_engine, name="cell-2", slots=1, first_port=19000)
    bravo = make_tenant(app_engine, platform, "bravo")
    for tenant in (alpha, bravo):
        with session_scope(TenantScope(tenant.id), engine=app_engine) as session:
            create_pool(session, actor=ACTOR, tenant_id=tenant.id, name="guests", ranges=["10.9.0.0/29"])
    return (alpha, platform.cell_id), (bravo, other_cell)


def test_tenants_may_share_addresses_and_see_only_their_own(app_engine, two_tenants):
    (alpha, _), (bravo, _) = two_tenants
    with session_scope(TenantScope(alpha.id), engine=app_engine) as session:
        update_pool(session, actor=ACTOR, tenant_id=alpha.id, name="guests", reserved={ANNA: "10.9.0.3"})
    seen = {}
    for tenant in (alpha, bravo):
        with session_scope(TenantScope(tenant.id), engine=app_engine) as session:
            seen[tenant.slug] = [state.reserved for state in list_pools(session, tenant_id=tenant.id)]
    assert seen == {"alpha": [1], "bravo": [0]}
    with session_scope(TenantScope(bravo.id), engine=app_engine) as session:
        # This holds even if the caller names a tenant outside its scope.
        assert list_pools(session, tenant_id=alpha.id) == []
        assert list_leases(session, tenant_id=alpha.id) == []
        with pytest.raises(PoolNotFound):
            release_address(session, actor=ACTOR, tenant_id=alpha.id, address="10.9.0.3")


def test_cell_leases_addresses_only_of_its_tenants(cell_engine, owner_engine, two_tenants):
    (alpha, alphas_cell), (bravo, _) = two_tenants
    with owner_engine.connect() as connection:
        pools = dict(connection.exec_driver_sql("SELECT tenant_id, id::text FROM pools").all())
    with session_scope(CellScope(alphas_cell), engine=cell_engine) as session:
        cursor = driver_connection(session).cursor()
        leased = [
            leases.refill_stock(cursor, alphas_cell, pools[tenant.id], wanted=4, grant=1) for tenant in (alpha, bravo)
        ]
        forged = leases.AddressAssignment(str(bravo.id), pools[alpha.id], 0, ANNA, 10)
        assert leases.record_assignments(cursor, alphas_cell, [forged]) == 0
        cursor.execute("SELECT count(*) FROM pool_addresses WHERE state = 'leased'")
        assert cursor.fetchone() == (0,)
        given = [leases.AddressAssignment(str(tenant.id), pools[tenant.id], 0, ANNA, 10) for tenant in (alpha, bravo)]
        leases.record_assignments(cursor, alphas_cell, given)
        leases.end_leases(cursor, alphas_cell, [str(bravo.id)], since=0, now=10**16, clock=10**16)
        cursor.execute("SELECT clear_away_pools()")
    assert leased == [4, 0]
    states = "SELECT tenant_id, state FROM pool_addresses WHERE number = 0"
    with owner_engine.connect() as connection:
        assert dict(connection.exec_driver_sql(states).all()) == {alpha.id: "leased", bravo.id: "free"}


def test_cell_cannot_delete_pools_or_move_addresses(cell_engine, two_tenants):
    (_, alphas_cell), (bravo, _) = two_tenants
    for statement in (
        "DELETE FROM pools",
        "DELETE FROM pool_addresses",
        f"UPDATE pool_addresses SET tenant_id = '{bravo.id}'",
        "UPDATE pool_addresses SET address = '10.0.0.1'",
        "INSERT INTO pools (tenant_id, name, kind, ranges, prefix_length) "
        f"VALUES ('{bravo.id}', 'x', 'ipv4', '{{}}', 32)",
    ):
        with (
            pytest.raises((psycopg.errors.InsufficientPrivilege, ScopeViolation)),
            session_scope(CellScope(alphas_cell), engine=cell_engine) as session,
        ):
            driver_connection(session).execute(statement)


def test_pools_are_deleted_with_their_tenant(owner_engine, two_tenants):
    (alpha, _), (bravo, _) = two_tenants
    with owner_engine.begin() as connection:
        connection.exec_driver_sql("UPDATE slots SET tenant_id = NULL, status = 'retired'")
        connection.exec_driver_sql(f"DELETE FROM tenants WHERE id = '{alpha.id}'")
        left = connection.exec_driver_sql("SELECT DISTINCT tenant_id FROM pool_addresses").scalars().all()
    assert left == [bravo.id]


def test_all_update_errors_are_listed_and_nothing_stored(app_engine, owner_engine, two_tenants):
    (alpha, _), _ = two_tenants
    change = {
        "ranges": ["10.9.0.300"],
        "options": PoolOptions(stock=0, grace_seconds=1),
        "reserved": {"zz": "10.9.0.3", ANNA: "none"},
    }
    with (
        pytest.raises(SeveralMistakes) as refused,
        session_scope(TenantScope(alpha.id), engine=app_engine) as session,
    ):
        update_pool(session, actor=ACTOR, tenant_id=alpha.id, name="guests", **change)
    # One list contains the errors of all checks.
    assert [each.place for each in refused.value.mistakes] == [
        *("stock", "grace_seconds", "ranges", "reserved", "reserved")
    ]
    assert str(refused.value).count("mistakes:") == 1
    with owner_engine.connect() as connection:
        assert connection.exec_driver_sql("SELECT DISTINCT stock FROM pools").scalars().all() == [1024]
