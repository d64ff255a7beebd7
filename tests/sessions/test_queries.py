"""Queries of many live sessions. For every tenant, each is one query that uses an index."""

from collections import defaultdict
from datetime import UTC, datetime, timedelta

import psycopg
import pytest
from sqlalchemy import event, text

from loadtest.carrier.preload import INTERIM_SECONDS, MAX_AGE_SECONDS, NASES_PER_SITE, preload
from loadtest.carrier.queries import KINDS, run_queries
from nac.kit.db import TenantScope, driver_connection, make_engine, session_scope
from nac.kit.errors import NotFound
from nac.models import EndedSession
from nac.sessions import service as sessions
from nac.sessions.usage import USAGE_DIMENSIONS, list_usage
from tests.factories.tenancy import make_platform, make_tenant
from tests.statements import counted

LIVE = 6_000
INDEXES = {
    "user": {"ix_sessions_live_identity"},
    "mac": {"ix_sessions_live_mac"},
    "nas": {"ix_sessions_live_nas"},
    "site": {"ix_sessions_live_site"},
    "address": {"ix_sessions_live_framed_ip"},
    "session_id": {"ix_sessions_session_id"},
    "chargeable_user": {"ix_sessions_cui"},
    "ipv6": {"ix_sessions_framed_ipv6", "ix_sessions_framed_prefix", "ix_sessions_delegated_prefix"},
}


@pytest.fixture
def crowds(database, app_engine, cell_engine):
    """Sessions of three tenants. The largest tenant has more than half of the sessions."""
    platform = make_platform(app_engine, cell_engine, slots=3)
    tenants = [make_tenant(app_engine, platform, slug).id for slug in ("alpha", "bravo", "charlie")]
    with psycopg.connect(database.owner_url, autocommit=True) as connection:
        crowds = preload(connection, tenants, LIVE)
        connection.execute("UPDATE sessions SET cui = 'cui-' || ('x' || session_id)::bit(32)::int WHERE id % 3 = 0")
        connection.execute("UPDATE sessions SET cui = 'cui-5' WHERE session_id = '00000005'")
        connection.execute("ANALYZE sessions")
        return crowds


def filters_of(crowd, kind, n):
    if kind == "ipv6":
        return {"address": "2001:db8::5"}
    if kind == "session_id":
        return {kind: f"{n:08X}"}
    if kind == "chargeable_user":
        return {kind: f"cui-{n}"}
    if kind == "site":
        return {"site": "site-0"}
    return {kind: getattr(crowd, kind)(n)}


def test_each_query_returns_the_right_rows_in_one_statement(crowds, app_engine):
    run = run_queries(app_engine.url.render_as_string(hide_password=False), crowds, KINDS, 0.2, seed=1)
    assert run.right == run.requests >= 1
    for kind in INDEXES:
        with session_scope(TenantScope(crowds[0].tenant_id), engine=app_engine) as session:
            with counted(app_engine) as statements:
                found = sessions.list_sessions(session, tenant_id=crowds[0].tenant_id, **filters_of(crowds[0], kind, 5))
            assert found
        asked = [each for each in statements if "set_config" not in each]
        assert len(asked) == 1, asked


def test_each_query_uses_an_index(crowds, app_engine):
    tenant_id = crowds[0].tenant_id
    sent = []

    def note(connection, cursor, statement, parameters, context, executemany):
        sent.append((statement, parameters))

    for kind, indexes in INDEXES.items():
        with session_scope(TenantScope(tenant_id), engine=app_engine) as session:
            event.listen(app_engine, "before_cursor_execute", note)
            try:
                sessions.list_sessions(session, tenant_id=tenant_id, **filters_of(crowds[0], kind, 5))
            finally:
                event.remove(app_engine, "before_cursor_execute", note)
            statement, parameters = sent[-1]
            plan = [line for (line,) in driver_connection(session).execute(f"EXPLAIN {statement}", parameters)]
        assert {index for index in indexes if any(index in line for line in plan)} == indexes, plan
        assert not any("Seq Scan on sessions" in line for line in plan)


@pytest.fixture
def api_engine(database):
    """An engine whose connections plan queries as those of the API."""
    engine = make_engine(database.app_url, settings=("plan_cache_mode=force_custom_plan",))
    yield engine
    engine.dispose()


@pytest.mark.parametrize("kind", [*KINDS, "ipv6"])
def test_key_lookup_has_a_cached_plan_and_reads_few_rows(crowds, api_engine, database, kind):
    """This holds even if all sessions have one user name."""
    [crowd, *_] = crowds
    wanted = filters_of(crowd, kind, 5)
    with psycopg.connect(database.owner_url, autocommit=True) as connection:
        if kind == "user":
            wanted = {"user": "anonymous"}
            connection.execute("UPDATE sessions SET identity = 'anonymous' WHERE tenant_id = %s", (crowd.tenant_id,))
        connection.execute("VACUUM ANALYZE sessions")
    assert sessions.is_indexed_query(**{"mac": "", "user": "", "nas": "", "address": ""} | wanted)
    read = []
    with session_scope(TenantScope(crowd.tenant_id), engine=api_engine, by_key=True) as session:
        ask = driver_connection(session).execute
        for _ in range(20):
            found = sessions.list_sessions(session, tenant_id=crowd.tenant_id, limit=20, **wanted)
            rows = "SELECT seq_tup_read, idx_tup_fetch FROM pg_stat_xact_user_tables WHERE relname = 'sessions'"
            read.append(ask(rows).fetchone())
        plans = "SELECT max(generic_plans) FROM pg_prepared_statements WHERE statement LIKE '%FROM sessions%'"
        assert ask(plans).fetchone()[0] > 0
    assert found
    assert [after - before for before, after in zip(*read[-2:], strict=True)] == [0, len(found)]


ENDED = {
    "nas": "nas_id",
    "site": "site_id",
    "ipv6": "framed_ipv6",
    "session_id": "session_id",
    "chargeable_user": "cui",
}


def test_old_ended_sessions_are_found_by_an_index(crowds, app_engine, database):
    """The tenant has many sessions, and one of this kind."""
    [crowd, *_] = crowds
    columns = ", ".join(column.name for column in EndedSession.__table__.columns if column.name != "stopped_at")
    with psycopg.connect(database.owner_url, autocommit=True) as connection:
        connection.execute(
            f"INSERT INTO session_history ({columns}, stopped_at) SELECT {columns}, updated_at FROM sessions"
        )
        connection.execute("ANALYZE session_history")
        for kind, column in ENDED.items():
            with session_scope(TenantScope(crowd.tenant_id), engine=app_engine) as session:
                wanted = {"ended": True, "limit": LIVE, **filters_of(crowd, kind, 5)}
                found = sessions.list_sessions(session, tenant_id=crowd.tenant_id, **wanted)
            assert {shown.row.stopped_at is None for shown in found} == {False, True}
            connection.execute("SET enable_seqscan = off")
            (value,) = connection.execute(
                f"SELECT {column} FROM sessions WHERE tenant_id = %s AND session_id = '00000005'", (crowd.tenant_id,)
            ).fetchone()
            plan = connection.execute(
                f"EXPLAIN SELECT FROM session_history WHERE tenant_id = %s AND {column} = %s "
                + ("AND cui <> ''" if column == "cui" else ""),
                (crowd.tenant_id, value),
            )
            lines = [line for (line,) in plan]
            assert any(f"_{column}_" in line for line in lines), lines


@pytest.fixture
def plans(crowds, app_engine):
    """Function that returns the query plans of a call for the largest tenant."""
    tenant_id = crowds[0].tenant_id

    def plans(call, **wanted):
        sent = []

        def note(connection, cursor, statement, parameters, context, executemany):
            sent.append((statement, parameters))

        with session_scope(TenantScope(tenant_id), engine=app_engine) as session:
            event.listen(app_engine, "before_cursor_execute", note)
            try:
                call(session, tenant_id=tenant_id, **wanted)
            finally:
                event.remove(app_engine, "before_cursor_execute", note)
            driver = driver_connection(session)
            return [
                [line for (line,) in driver.execute(f"EXPLAIN {statement}", parameters)]
                for statement, parameters in sent
                if "set_config" not in statement
            ]

    return plans


@pytest.mark.parametrize("kind", ["nas", "site"])
def test_recent_sessions_of_a_nas_or_site_use_an_index(crowds, plans, database, kind):
    with psycopg.connect(database.owner_url, autocommit=True) as connection:
        connection.execute("UPDATE sessions SET stopped_at = updated_at WHERE id % 50 <> 0")
        connection.execute("ANALYZE sessions")
    _, recent, *_ = plans(sessions.list_sessions, ended=True, limit=100, **filters_of(crowds[0], kind, 5))
    assert any(f"ix_sessions_ended_{kind}" in line for line in recent), recent
    # A NAS has few sessions, so the planner may sort them or read them in order.
    assert kind == "nas" or not any("Sort" in line for line in recent), recent


def test_old_session_is_read_without_scanning_others(crowds, app_engine, database):
    columns = ", ".join(column.name for column in EndedSession.__table__.columns if column.name != "stopped_at")
    with psycopg.connect(database.owner_url, autocommit=True) as connection:
        connection.execute(
            f"INSERT INTO session_history ({columns}, stopped_at) SELECT {columns}, updated_at FROM sessions"
        )
        (row,) = connection.execute(
            "DELETE FROM sessions WHERE tenant_id = %s AND session_id = '00000005' RETURNING id", (crowds[0].tenant_id,)
        ).fetchone()
        connection.execute("ANALYZE session_history")
    with session_scope(TenantScope(crowds[0].tenant_id), engine=app_engine) as session:
        assert sessions.get_session(session, tenant_id=crowds[0].tenant_id, row=row).row.session_id == "00000005"
        read = session.scalar(
            text(
                "SELECT sum(seq_tup_read + coalesce(idx_tup_fetch, 0)) FROM pg_stat_xact_user_tables "
                "WHERE starts_with(relname, 'session_history')"
            )
        )
    assert read <= 10


def test_nas_is_found_by_name_and_one_without_sessions_is_empty(crowds, app_engine):
    [crowd, *_] = crowds
    with session_scope(TenantScope(crowd.tenant_id), engine=app_engine) as session:

        def names(**wanted):
            return {shown.nas for shown in sessions.list_sessions(session, tenant_id=crowd.tenant_id, **wanted)}

        assert names(nas="Switch 1") == names(nas="sw-1") == {"Switch 1"}
        assert names(nas="Switch 1", user=crowd.user(0)) == set()
        assert names(site="main") == set()
        for wanted in ({"nas": "sw-none"}, {"site": "none"}):
            with pytest.raises(NotFound):
                names(**wanted)


def test_usage_sums_are_exact_in_each_dimension(crowds, app_engine):
    [_, crowd, _] = crowds
    expected = {by: defaultdict(lambda: [0, 0, 0, 0]) for by in USAGE_DIMENSIONS}
    hour = datetime.fromtimestamp(crowd.base, UTC).replace(minute=0, second=0)
    for n in range(crowd.sessions):
        age = n * 37 % MAX_AGE_SECONDS
        used = (1, age - n % min(age + 1, INTERIM_SECONDS), age * 1_000, age * 9_000)
        nas = int(crowd.nas(n).removeprefix("sw-"))
        names = {
            "hour": hour.isoformat(),
            "endpoint": crowd.mac(n),
            "user": crowd.user(n),
            "nas": f"Switch {nas}",
            "site": f"site-{nas // NASES_PER_SITE}",
        }
        for by, name in names.items():
            expected[by][name] = [sum(pair) for pair in zip(expected[by][name], used, strict=True)]
    for by in USAGE_DIMENSIONS:
        with session_scope(TenantScope(crowd.tenant_id), engine=app_engine) as session:
            found = list_usage(
                session, tenant_id=crowd.tenant_id, by=by, since=hour, until=hour + timedelta(hours=1), limit=LIVE
            )
        assert {
            use.what: [use.sessions, use.seconds, use.input_octets, use.output_octets] for use in found
        } == expected[by]


def test_nases_of_one_name_are_summed_separately(crowds, app_engine, database):
    [crowd, *_] = crowds
    rows = []
    for _ in range(2):
        with session_scope(TenantScope(crowd.tenant_id), engine=app_engine) as session:
            rows.append(list_usage(session, tenant_id=crowd.tenant_id, by="nas", since=datetime.fromtimestamp(0, UTC)))
        with psycopg.connect(database.owner_url, autocommit=True) as connection:
            connection.execute("UPDATE nases SET name = 'Core'")
    before, after = ([use.input_octets for use in found] for found in rows)
    assert before == after
    assert {use.what for use in rows[1]} == {"Core"}
