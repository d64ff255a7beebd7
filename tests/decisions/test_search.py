"""The search of the authentication log, in steps."""

from datetime import datetime, timedelta
from itertools import product

import pytest
from sqlalchemy import Engine
from sqlalchemy.orm import Session

from nac.kit.clock import utc_now
from nac.kit.db import TenantScope, session_scope
from nac.kit.ids import TenantId
from nac.models import AuthLog
from nac.sessions import log_search
from nac.sessions.decisions import service as decisions
from tests.factories.rows import make_row
from tests.factories.tenant_fixtures import tenant, tenant_id
from tests.statements import counted

__all__ = ["tenant", "tenant_id"]
NOW = utc_now()
MAC = "02a0c0000001"
# Ages in days: rows of equal time, gaps of all lengths, a row before all partitions, and a row with a wrong clock.
AGES = (-3, 0, 0, 0, 0.1, 0.2, 1, 3, 3, 9, 20, 21, 22, 70, 300, 301, 9_000)


@pytest.fixture
def search(app_engine: Engine, owner_engine: Engine, tenant_id: TenantId):
    with Session(owner_engine) as session, session.begin():
        for number, age in enumerate(AGES):
            ours = number % 2 == 0
            row = {"mac": MAC if ours else "02a0c0000002", "identity": "ann" if ours else "bob", "detail": str(number)}
            make_row(session, AuthLog.__table__, tenant_id, at=NOW - timedelta(days=age), permitted=ours, **row)

    def search(before: tuple[datetime, int] | None = None, **wanted):
        with session_scope(TenantScope(tenant_id), engine=app_engine) as session:
            return decisions.search_decisions(session, tenant_id=tenant_id, before=before, **wanted)

    return search


CASES = (
    ({}, range(17)),
    ({"mac": MAC}, range(0, 17, 2)),
    ({"user": "BOB"}, range(1, 17, 2)),
    ({"rejects": True}, range(1, 17, 2)),
    ({"verdict": "permit"}, range(0, 17, 2)),
    ({"verdict": "quarantine"}, ()),
    ({"user": "ann", "since": NOW - timedelta(days=21.5)}, range(0, 12, 2)),
    ({"mac": MAC, "before": (NOW - timedelta(days=15), 0)}, range(10, 17, 2)),
    ({"mac": MAC, "before": (NOW + timedelta(days=90), 0)}, range(0, 17, 2)),
    ({"since": NOW + timedelta(days=1)}, (0,)),
    ({"mac": "02a0c0000009"}, ()),
    ({"user": "nobody"}, ()),
)


def bounds(since=None, before=None, *, oldest_first: bool) -> dict:
    if not oldest_first:
        return {"before": before, "until": since}
    return {"before": (since, 0) if since else None, "until": before[0] if before else None}


@pytest.mark.parametrize(
    ("hurried", "oldest_first"),
    [(True, True), (False, False), *(pytest.param(each, not each, marks=pytest.mark.long) for each in (True, False))],
)
def test_continued_search_finds_every_row_once_in_order(search, monkeypatch, hurried, oldest_first):
    """The partitions span a year, or are those of the tests."""
    if hurried:
        monkeypatch.setattr(log_search, "BUDGET_SECONDS", 0)
        monkeypatch.setattr(log_search, "_INITIAL_DAYS", 8)
        monkeypatch.setattr(log_search, "_oldest_partition_day", lambda session, log: NOW - timedelta(days=365))
    monkeypatch.setattr(log_search, "SLICE_ROWS", 3)
    for limit, (wanted, found) in product((2, 100), CASES):
        period = {name: wanted[name] for name in wanted.keys() & {"since", "before"}}
        asked = {name: wanted[name] for name in wanted.keys() - period.keys()}
        asked |= bounds(**period, oldest_first=oldest_first) | {"oldest_first": oldest_first, "limit": limit}
        rows, page = [], search(**asked)
        for _ in range(60):
            rows += page.rows
            assert len(page.rows) <= limit
            if page.next is None:
                break
            page = search(**asked | {"before": page.next})
        assert page.next is None, wanted
        keys = [each.key for each in rows]
        assert keys == sorted(keys, reverse=not oldest_first)
        assert sorted(int(each.log.detail) for each in rows) == list(found), (limit, wanted)


def test_empty_search_takes_few_statements(search, app_engine):
    with counted(app_engine) as statements:
        assert search(mac="02a0c0000009").next is None
    assert len(statements) <= 7


def test_search_is_planned_for_its_values(app_engine, tenant_id, search):
    """The plan remains good after many repetitions, when PostgreSQL would reuse a plan of the connection."""
    kept = "SELECT count(*), coalesce(sum(generic_plans), 0) FROM pg_prepared_statements WHERE statement LIKE %s"
    for _ in range(20):
        with session_scope(TenantScope(tenant_id), engine=app_engine) as session:
            decisions.search_decisions(session, tenant_id=tenant_id, mac=MAC)
            prepared, generic = session.connection().exec_driver_sql(kept, ("SELECT auth_log.%",)).one()
    assert prepared > 0
    assert generic == 0
