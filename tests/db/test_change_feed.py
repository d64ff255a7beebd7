"""The change feed for agents. It uses snapshots, so the order of commits has no effect."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

import psycopg
import pytest
from psycopg import sql
from sqlalchemy import Engine, delete, insert, select, update
from sqlalchemy.orm import Session

from nac.inventory.endpoints import service as endpoints
from nac.inventory.groups import ENDPOINT_GROUPS, USER_GROUPS
from nac.inventory.users import service as users
from nac.kit.db import PlatformScope, TenantScope, session_scope
from nac.kit.ids import TenantId
from nac.models import Endpoint, EndpointGroup, EndpointGroupMember, Policy, PolicyVersion, Site, User
from nac.onboarding import tenant_purge
from nac.tenancy.tenants import service as tenants
from tests.factories.tenancy import ACTOR, Platform, make_platform, make_tenant
from tests.postgres import Database
from tests.row_snapshots import snapshotted

_NEW = """
    SELECT noun, key FROM replica_changes
    WHERE xact >= pg_snapshot_xmin(%(last)s::pg_snapshot) AND NOT pg_visible_in_snapshot(xact, %(last)s::pg_snapshot)
    ORDER BY id
"""
_COLUMNS = "SELECT attname FROM pg_attribute WHERE attrelid = 'endpoints'::regclass AND attnum > 0 AND NOT attisdropped"
# Trigger functions that read old and new rows: whether they join these rows, and the column of the join.
_COMPARING = """
    SELECT DISTINCT p.proname, p.prosrc ~ ('JOIN (' || t.tgoldtable || '|' || t.tgnewtable || ')\\M'),
        'enable_nestloop=off' = ANY (coalesce(p.proconfig, '{}'))
    FROM pg_trigger t JOIN pg_proc p ON p.oid = t.tgfoid WHERE t.tgoldtable IS NOT NULL AND t.tgnewtable IS NOT NULL
"""


Scoped = Callable[[], AbstractContextManager[Session]]


class Follower:
    """Reads the change feed as an agent does."""

    def __init__(self, connection: psycopg.Connection, cell_id: int) -> None:
        self._connection = connection
        self._cell_id = cell_id
        self.position = ""
        self.read()

    def read(self) -> list[tuple[str, str]]:
        with self._connection.transaction():
            self._connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            self._connection.execute("SELECT set_config('admit.cell_id', %s, true)", [str(self._cell_id)])
            row = self._connection.execute("SELECT pg_current_snapshot()::text").fetchone()
            assert row is not None
            new = self._connection.execute(_NEW, {"last": self.position or row[0]}).fetchall()
            self.position = row[0]
        return [(noun, key) for noun, key in new]


@pytest.fixture
@snapshotted
def platform(app_engine: Engine, cell_engine: Engine) -> Platform:
    return make_platform(app_engine, cell_engine, slots=2)


@pytest.fixture
def tenant_id(app_engine: Engine, platform: Platform) -> TenantId:
    return make_tenant(app_engine, platform, "alpha").id


@pytest.fixture
def scoped(app_engine: Engine, tenant_id: TenantId) -> Scoped:
    return lambda: session_scope(TenantScope(tenant_id), engine=app_engine)


@pytest.fixture
def follower(database: Database, platform: Platform, tenant_id: TenantId) -> Iterator[Follower]:
    with psycopg.connect(database.cell_url, autocommit=True) as connection:
        yield Follower(connection, platform.cell_id)


def test_endpoint_create_block_and_delete_are_each_published(
    scoped: Scoped, tenant_id: TenantId, follower: Follower
) -> None:
    for change in (
        lambda session, **who: endpoints.create_endpoint(session, **who, mac="00-11-22-33-44-AA"),
        lambda session, **who: endpoints.block_endpoint(session, **who, mac="00-11-22-33-44-AA"),
        lambda session, **who: endpoints.delete_endpoint(session, **who, mac="00-11-22-33-44-AA"),
    ):
        with scoped() as session:
            change(session, actor=ACTOR, tenant_id=tenant_id)
        assert follower.read() == [("endpoint", "0011223344aa")]
        assert follower.read() == []


def test_unchanged_or_rolled_back_row_is_not_published(scoped: Scoped, tenant_id: TenantId, follower: Follower) -> None:
    with scoped() as session:
        session.execute(update(Site).values(name=Site.name))
    with scoped() as session:
        endpoints.create_endpoint(session, actor=ACTOR, tenant_id=tenant_id, mac="001122334455")
        session.rollback()
    assert follower.read() == []


READ_BY_CELLS = {
    "name": "printer",
    "status": "blocked",
    "valid_until": "2030-01-01",
    "attributes": '{"a": "b"}',
    "vendor": "Acme",
    "found_profile": "printer",
    "found_confidence": "7",
    "set_profile": "camera",
    "os": "Linux",
    "first_seen_at": "2020-01-01",
    "posture": '{"mdm.compliant": {"value": "true", "until": 1}}',
    "psk_sealed": "\\x01",
}
OTHERS = {
    "owner": "Ann",
    "notes": "under the desk",
    "model": "X",
    "found_why": '[{"a": 1}]',
    "updated_at": "2030-01-01",
}


def test_device_change_is_published_if_cells_read_it(
    database: Database, scoped: Scoped, tenant_id: TenantId, follower: Follower
) -> None:
    old, new = "0011223344aa", "0011223344ab"
    with scoped() as session:
        endpoints.create_endpoint(session, actor=ACTOR, tenant_id=tenant_id, mac=old)
    follower.read()
    with psycopg.connect(database.owner_url, autocommit=True) as connection:
        for column, value in (READ_BY_CELLS | OTHERS).items():
            connection.execute(sql.SQL("UPDATE endpoints SET {} = %s").format(sql.Identifier(column)), (value,))
            assert follower.read() == ([("endpoint", old)] if column in READ_BY_CELLS else []), column
        connection.execute("UPDATE endpoints SET mac = %s", [new])
        assert sorted(follower.read()) == [("endpoint", old), ("endpoint", new)]
        # A new column must be added to one of the two lists.
        names = {row[0] for row in connection.execute(_COLUMNS)}
    assert names == {*READ_BY_CELLS, *OTHERS, "mac", "id", "tenant_id", "created_at"}


def test_devices_and_memberships_of_a_statement_are_published(
    scoped: Scoped, tenant_id: TenantId, follower: Follower
) -> None:
    macs = [f"{number:012x}" for number in range(1, 2_502)]
    with scoped() as session:
        group = ENDPOINT_GROUPS.create(session, actor=ACTOR, tenant_id=tenant_id, name="all")
        session.execute(insert(Endpoint), [{"tenant_id": tenant_id, "mac": mac} for mac in macs])
    assert sorted(follower.read()) == [("endpoint", mac) for mac in macs]
    with scoped() as session:
        members = [
            {"tenant_id": tenant_id, "endpoint_id": endpoint_id, "group_id": group.id}
            for endpoint_id in session.scalars(select(Endpoint.id))
        ]
        session.execute(insert(EndpointGroupMember), members)
    assert sorted(follower.read()) == [("endpoint", mac) for mac in macs]
    with scoped() as session:
        session.execute(update(Endpoint).values(name="renamed"))
    assert sorted(follower.read()) == [("endpoint", mac) for mac in macs]


def test_trigger_never_compares_all_pairs_of_rows(database: Database, scoped: Scoped, tenant_id: TenantId) -> None:
    with scoped() as session:
        session.execute(insert(Endpoint), [{"tenant_id": tenant_id, "mac": f"{each:012x}"} for each in range(50)])
    plans: list[str] = []
    with psycopg.connect(database.superuser_url, autocommit=True) as connection:
        connection.execute("LOAD 'auto_explain'")
        connection.execute("SET auto_explain.log_min_duration = 0")
        connection.execute("SET auto_explain.log_nested_statements = on")
        connection.execute("SET auto_explain.log_level = notice")
        # PostgreSQL keeps the plan for one row and uses it for all later rows.
        connection.execute("UPDATE endpoints SET name = 'one' WHERE mac = '000000000001'")
        connection.add_notice_handler(lambda said: plans.append(said.message_primary or ""))
        connection.execute("UPDATE endpoints SET name = 'all'")
    told = next(plan for plan in plans if "before b JOIN changed c" in plan)
    assert "Hash Cond: (b.id = c.id)" in told or "Hash Cond: (c.id = b.id)" in told


def test_trigger_functions_avoid_nested_loops(database: Database) -> None:
    with psycopg.connect(database.owner_url) as connection:
        found = connection.execute(_COMPARING).fetchall()
    assert {name for name, *_ in found} >= {"record_endpoint_changes", "note_certificates", "note_sessions"}
    assert [name for name, joins, bounded in found if joins and not bounded] == []


def test_key_change_publishes_old_and_new(scoped: Scoped, tenant_id: TenantId, follower: Follower) -> None:
    with scoped() as session:
        users.create_user(session, actor=ACTOR, tenant_id=tenant_id, name="Ann", password="correct horse")
    assert follower.read() == [("user", "ann")]
    with scoped() as session:
        session.execute(update(User).values(name="beth"))
    assert sorted(follower.read()) == [("user", "ann"), ("user", "beth")]


def test_change_of_a_group_publishes_its_members(scoped: Scoped, tenant_id: TenantId, follower: Follower) -> None:
    who = {"actor": ACTOR, "tenant_id": tenant_id}
    with scoped() as session:
        for groups in (ENDPOINT_GROUPS, USER_GROUPS):
            groups.create(session, **who, name="staff")
        for number in (5, 6):
            endpoints.create_endpoint(session, **who, mac=f"00112233445{number}")
            users.create_user(session, **who, name=f"ann-{number}", password="correct horse")
    follower.read()
    members = [("endpoint", "001122334455"), ("user", "ann-5")]
    with scoped() as session:
        endpoints.update_groups(session, **who, mac="001122334455", groups=["staff"])
        users.update_user(session, **who, name="ann-5", groups=["staff"])
    assert sorted(follower.read()) == members
    with scoped() as session:
        for groups in (ENDPOINT_GROUPS, USER_GROUPS):
            groups.rename(session, **who, name="staff", new_name="teachers")
    assert sorted(follower.read()) == members
    with scoped() as session:
        session.execute(delete(EndpointGroup))
    assert follower.read() == members[:1]


def test_publishing_a_version_is_published_but_not_a_draft(
    scoped: Scoped, tenant_id: TenantId, follower: Follower
) -> None:
    with scoped() as session:
        policy = Policy(tenant_id=tenant_id, slug="wired", name="Wired")
        session.add(policy)
        session.flush()
        version = PolicyVersion(tenant_id=tenant_id, policy_id=policy.id, number=1, document={})
        session.add(version)
    assert follower.read() == [("policy", str(policy.id))]
    with scoped() as session:
        session.execute(update(PolicyVersion).values(comment="still a draft"))
    assert follower.read() == []
    with scoped() as session:
        session.execute(update(PolicyVersion).values(status="published"))
        session.execute(update(Policy).values(published_version=1))
    assert set(follower.read()) == {("policy", str(policy.id))}


def test_late_commit_is_still_published(scoped: Scoped, tenant_id: TenantId, follower: Follower) -> None:
    who = {"actor": ACTOR, "tenant_id": tenant_id}
    with scoped() as slow:
        endpoints.create_endpoint(slow, **who, mac="001122334401")
        with scoped() as quick:
            endpoints.create_endpoint(quick, **who, mac="001122334402")
        assert follower.read() == [("endpoint", "001122334402")]
    assert follower.read() == [("endpoint", "001122334401")]
    assert follower.read() == []


def test_tenant_of_another_cell_is_not_published(
    scoped: Scoped, platform: Platform, database: Database, tenant_id: TenantId
) -> None:
    with psycopg.connect(database.cell_url, autocommit=True) as connection:
        follower = Follower(connection, platform.cell_id + 1)
        with scoped() as session:
            endpoints.create_endpoint(session, actor=ACTOR, tenant_id=tenant_id, mac="001122334455")
        assert follower.read() == []


def test_tenant_arrival_and_departure_use_its_slot(app_engine: Engine, platform: Platform, follower: Follower) -> None:
    bravo = make_tenant(app_engine, platform, "bravo")
    assert ("slot", "1") in follower.read()
    with session_scope(PlatformScope(), engine=app_engine) as session:
        tenants.delete_tenant(session, actor=ACTOR, tenant_id=bravo.id)
    assert follower.read() == [("tenant", str(bravo.id))]
    with session_scope(PlatformScope(), engine=app_engine) as session:
        tenant_purge.purge_tenant(session, actor=ACTOR, tenant_id=bravo.id)
    assert set(follower.read()) == {("slot", "1")}


def test_commit_notifies_listeners(database: Database, scoped: Scoped) -> None:
    with psycopg.connect(database.cell_url, autocommit=True) as connection:
        connection.execute("LISTEN replica_changes")
        with scoped() as session:
            session.scalars(select(Site)).one().name = "Renamed"
        assert [found.channel for found in connection.notifies(timeout=5, stop_after=1)] == ["replica_changes"]
