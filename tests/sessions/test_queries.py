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
def owner(database):
    with psycopg.connect(database.owner_url, autocommit=True) as connection:
        yield connection


@pytest.fixture
def crowds(owner, app_engine, cell_engine):
    """Sessions of three tenants. The largest tenant has more than half of the sessions."""
    platform = make_platform(app_engine, cell_engine, slots=3)
    tenants = [make_tenant(app_engine, platform, slug).id for slug in ("alpha", "bravo", "charlie")]
    crowds = preload(owner, tenants, LIVE)
    owner.execute("UPDATE sessions SET cui = 'cui-' || ('x' || session_id)::bit(32)::int WHERE id % 3 = 0")
    owner.execute("UPDATE sessions SET cui = 'cui-5' WHERE session_id = '00000005'")
    owner.execute("ANALYZE sessions")
    return crowds


@pytest.fixture
def search(crowds, app_engine):
    """Function that lists sessions of the largest tenant. Returns them and the plans of the sent statements."""
    tenant_id = crowds[0].tenant_id

    def search(**wanted):
        sent = []

        def note(connection, cursor, statement, parameters, context, executemany):
            sent.append((statement, parameters))

        with session_scope(TenantScope(tenant_id), engine=app_engine) as session:
            event.listen(app_engine, "before_cursor_execute", note)
            try:
                found = sessions.list_sessions(session, tenant_id=tenant_id, **wanted)
            finally:
                event.remove(app_engine, "before_cursor_execute", note)
            driver = driver_connection(session)
            return found, [
                [line for (line,) in driver.execute(f"EXPLAIN {statement}", parameters)]
                for statement, parameters in sent
                if "set_config" not in statement
            ]

    return search


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


def test_each_query_is_one_statement_that_uses_an_index(crowds, app_engine, search):
    run = run_queries(app_engine.url.render_as_string(hide_password=False), crowds, KINDS, 0.2, seed=1)
    assert run.right == run.requests >= 1
    for kind, indexes in INDEXES.items():
        found, [plan] = search(**filters_of(crowds[0], kind, 5))
        assert found
        assert {index for index in indexes if any(index in line for line in plan)} == indexes, plan
        assert not any("Seq Scan on sessions" in line for line in plan)


def test_key_lookup_has_a_cached_plan_and_reads_few_rows(crowds, database, owner):
    """This holds even if all sessions have one user name."""
    [crowd, *_] = crowds
    for kind in sorted([*KINDS, "ipv6"], key=lambda kind: kind == "user"):
        wanted = filters_of(crowd, kind, 5)
        if kind == "user":
            wanted = {"user": "anonymous"}
            owner.execute("UPDATE sessions SET identity = 'anonymous' WHERE tenant_id = %s", (crowd.tenant_id,))
        owner.execute("VACUUM ANALYZE sessions")
        assert sessions.is_indexed_query(**{"mac": "", "user": "", "nas": "", "address": ""} | wanted)
        read = []
        # The connection plans queries as those of the API.
        engine = make_engine(database.app_url, settings=("plan_cache_mode=force_custom_plan",))
        with session_scope(TenantScope(crowd.tenant_id), engine=engine, by_key=True) as session:
            ask = driver_connection(session).execute
            for _ in range(20):
                found = sessions.list_sessions(session, tenant_id=crowd.tenant_id, limit=20, **wanted)
                rows = "SELECT seq_tup_read, idx_tup_fetch FROM pg_stat_xact_user_tables WHERE relname = 'sessions'"
                read.append(ask(rows).fetchone())
            plans = "SELECT max(generic_plans) FROM pg_prepared_statements WHERE statement LIKE '%FROM sessions%'"
            assert ask(plans).fetchone()[0] > 0, kind
        engine.dispose()
        assert found
        assert [after - before for before, after in zip(*read[-2:], strict=True)] == [0, len(found)], kind


ENDED = {
    "nas": "nas_id",
    "site": "site_id",
    "ipv6": "framed_ipv6",
    "session_id": "session_id",
    "chargeable_user": "cui",
}


def test_old_ended_sessions_are_found_by_an_index(crowds, search, owner, app_engine):
    """The tenant has many sessions, and one of this kind."""
    [crowd, *_] = crowds
    columns = ", ".join(column.name for column in EndedSession.__table__.columns if column.name != "stopped_at")
    owner.execute(f"INSERT INTO session_history ({columns}, stopped_at) SELECT {columns}, updated_at FROM sessions")
    owner.execute("ANALYZE session_history")
    owner.execute("SET enable_seqscan = off")
    the_fifth = "FROM sessions WHERE tenant_id = %s AND session_id = '00000005'"
    for kind, column in ENDED.items():
        found, _ = search(ended=True, limit=LIVE, **filters_of(crowd, kind, 5))
        assert {shown.row.stopped_at is None for shown in found} == {False, True}
        (value,) = owner.execute(f"SELECT {column} {the_fifth}", (crowd.tenant_id,)).fetchone()
        more = "AND cui <> ''" if column == "cui" else ""
        query = f"EXPLAIN SELECT FROM session_history WHERE tenant_id = %s AND {column} = %s {more}"
        lines = [line for (line,) in owner.execute(query, (crowd.tenant_id, value))]
        assert any(f"_{column}_" in line for line in lines), lines
    # A session that is only in the history is read without a scan of others. A new connection has no counts of the
    # queries above: PostgreSQL keeps them for up to a second after their transactions.
    app_engine.dispose()
    (row,) = owner.execute(f"DELETE {the_fifth} RETURNING id", (crowd.tenant_id,)).fetchone()
    with session_scope(TenantScope(crowd.tenant_id), engine=app_engine) as session:
        assert sessions.get_session(session, tenant_id=crowd.tenant_id, row=row).row.session_id == "00000005"
        reads = "sum(seq_tup_read + coalesce(idx_tup_fetch, 0)) FROM pg_stat_xact_user_tables"
        assert session.scalar(text(f"SELECT {reads} WHERE starts_with(relname, 'session_history')")) <= 10


def test_recent_sessions_of_a_nas_or_site_use_an_index(crowds, search, owner):
    owner.execute("UPDATE sessions SET stopped_at = updated_at WHERE id % 50 <> 0")
    owner.execute("ANALYZE sessions")
    for kind in ("nas", "site"):
        _, [_, recent, *_] = search(ended=True, limit=100, **filters_of(crowds[0], kind, 5))
        assert any(f"ix_sessions_ended_{kind}" in line for line in recent), recent
        # A NAS has few sessions, so the planner may sort them or read them in order.
        assert kind == "nas" or not any("Sort" in line for line in recent), recent


def test_nas_is_found_by_name_and_one_without_sessions_is_empty(crowds, search):
    def names(**wanted):
        return {shown.nas for shown in search(**wanted)[0]}

    assert names(nas="Switch 1") == names(nas="sw-1") == {"Switch 1"}
    assert names(nas="Switch 1", user=crowds[0].user(0)) == names(site="main") == set()
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
        period = {"since": hour, "until": hour + timedelta(hours=1)}
        with session_scope(TenantScope(crowd.tenant_id), engine=app_engine) as session:
            found = list_usage(session, tenant_id=crowd.tenant_id, by=by, limit=LIVE, **period)
        sums = {use.what: [use.sessions, use.seconds, use.input_octets, use.output_octets] for use in found}
        assert sums == expected[by]


def test_nases_of_one_name_are_summed_separately(crowds, app_engine, owner):
    [crowd, *_] = crowds
    rows = []
    for _ in range(2):
        with session_scope(TenantScope(crowd.tenant_id), engine=app_engine) as session:
            rows.append(list_usage(session, tenant_id=crowd.tenant_id, by="nas", since=datetime.fromtimestamp(0, UTC)))
        owner.execute("UPDATE nases SET name = 'Core'")
    before, after = ([use.input_octets for use in found] for found in rows)
    assert before == after
    assert {use.what for use in rows[1]} == {"Core"}
