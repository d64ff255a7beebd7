"""Reading and searching the authentication log, with rows of every kind that a cell writes."""

from datetime import datetime, timedelta
from itertools import product
from uuid import uuid4

import pytest
from sqlalchemy import Engine
from sqlalchemy.orm import Session

from nac.kit.clock import utc_now
from nac.kit.db import TenantScope, session_scope
from nac.kit.errors import InvalidInput, NotFound
from nac.kit.ids import TenantId
from nac.models import AuthLog, Certificate, Tenant
from nac.sessions import log_search
from nac.sessions.decisions import service as decisions
from nac.tenancy.nases import service as nases
from tests.factories.rows import make_row
from tests.factories.tenancy import ACTOR, seal
from tests.factories.tenant_fixtures import tenant
from tests.statements import counted

__all__ = ["tenant"]
NOW = utc_now()


@pytest.fixture
def write(owner_engine: Engine, tenant: Tenant):
    def write(*, minutes_ago: int = 0, tenant_id: TenantId | None = None, **values: object) -> None:
        row = {"at": NOW - timedelta(minutes=minutes_ago), "reason": "unknown-mac", "permitted": False} | values
        with Session(owner_engine) as session, session.begin():
            make_row(session, AuthLog.__table__, tenant_id or tenant.id, **row)

    return write


@pytest.fixture
def read(app_engine: Engine, tenant: Tenant):
    def read(**filters: object):
        with session_scope(TenantScope(tenant.id), engine=app_engine) as session:
            return decisions.search_decisions(session, tenant_id=tenant.id, **filters).rows

    return read


@pytest.mark.parametrize(
    ("filters", "found"),
    [
        ({}, {"anonymous", "refused", "Ann"}),
        ({"mac": "00-11-22-33-44-55"}, {"anonymous"}),
        ({"user": "ANN"}, {"Ann"}),
        ({"user": "An"}, set()),
        ({"reason": "wrong-password"}, {"Ann"}),
        ({"mac": "001122334455", "reason": "wrong-password"}, set()),
        ({"until": NOW - timedelta(minutes=5)}, {"refused", "Ann"}),
        ({"user": "LAPTOP-1"}, {"anonymous", "refused"}),
        ({"user": "0A1B"}, {"anonymous", "refused"}),
        ({"user": "0a:1b"}, {"anonymous", "refused"}),
        ({"user": "laptop"}, set()),
        ({"rejects": True}, {"refused", "Ann"}),
        ({"rejects": True, "user": "laptop-1"}, {"refused"}),
        ({"nas": "Core-1"}, {"anonymous"}),
        ({"nas": "192.0.2.7"}, {"refused"}),
        ({"site": "main"}, {"refused"}),
    ],
)
def test_filters_are_combined(write, read, app_engine, tenant, filters, found):
    shown = {"method": "eap-tls", "certificate_serial": "0a1b"}
    facts = {"mac": "001122334455", "request": {"certificate.common_name": ["Laptop-1"]}, "nas_identifier": "core-1"}
    write(**shown, **facts, identity="anonymous", permitted=True, minutes_ago=10)
    # For a revoked certificate, the log contains only the serial number.
    write(**shown, identity="refused", nas_address="192.0.2.7", site_id=tenant.default_site_id)
    write(identity="Ann", reason="wrong-password", mac="001122334466", certificate_serial="")
    with session_scope(TenantScope(tenant.id), engine=app_engine) as session:
        make_row(session, Certificate.__table__, tenant.id, serial=b"\x0a\x1b", common_name="laptop-1")
    decisions = read(**filters)
    assert {decision.log.identity for decision in decisions} == found
    assert {decision.certificate.lower() for decision in decisions} - {""} <= {"laptop-1"}


def test_certificate_without_common_name_shows_its_san(write, read):
    shown = {"method": "eap-tls", "certificate_serial": "0a1c"}
    write(**shown, request={"identity": ["anna@corp.example"], "certificate.san.upn": ["anna@corp.example"]})
    assert read()[0].certificate == "anna@corp.example"


def test_unknown_site_and_invalid_values_match_nothing(write, read):
    write(certificate_serial="not hex", request={"certificate.common_name": []})
    assert read()[0].certificate == ""
    with pytest.raises(NotFound, match="site"):
        read(site="nowhere")
    with pytest.raises(InvalidInput):
        read(mac="00:11")


def test_rows_of_another_tenant_are_not_found(write, read):
    write(tenant_id=TenantId(uuid4()))
    assert read() == []


def test_deleted_nas_and_site_keep_their_logged_names(app_engine, tenant, write, read):
    with session_scope(TenantScope(tenant.id), engine=app_engine) as session:
        place = {"tenant_id": tenant.id, "site_id": tenant.default_site_id}
        nas = nases.create_nas(session, actor=ACTOR, **place, name="Core switch", seal=seal, identifier="core-1")
    write(minutes_ago=1, nas_id=nas.id, site_id=tenant.default_site_id, nas_identifier="core-1")
    write(minutes_ago=2, nas_id=uuid4(), site_id=uuid4(), nas_identifier="gone")
    write(minutes_ago=3, nas_identifier="", nas_address="192.0.2.7")
    assert [(decision.nas, decision.site) for decision in read()] == [
        ("Core switch", "main"),
        ("gone", ""),
        ("192.0.2.7", ""),
    ]


def test_reason_of_another_version_is_shown_as_is(write, read):
    write(reason="of-the-future")
    assert read()[0].reason == ("of-the-future", "of-the-future", "")


MAC = "02a0c0000001"
# Ages in days: rows of equal time, gaps of all lengths, a row before all partitions, and a row with a wrong clock.
AGES = (-3, 0, 0, 0, 0.1, 0.2, 1, 3, 3, 9, 20, 21, 22, 70, 300, 301, 9_000)


@pytest.fixture
def search(app_engine: Engine, owner_engine: Engine, tenant: Tenant):
    with Session(owner_engine) as session, session.begin():
        for number, age in enumerate(AGES):
            ours = number % 2 == 0
            row = {"mac": MAC if ours else "02a0c0000002", "identity": "ann" if ours else "bob", "detail": str(number)}
            make_row(session, AuthLog.__table__, tenant.id, at=NOW - timedelta(days=age), permitted=ours, **row)

    def search(before: tuple[datetime, int] | None = None, **wanted):
        with session_scope(TenantScope(tenant.id), engine=app_engine) as session:
            return decisions.search_decisions(session, tenant_id=tenant.id, before=before, **wanted)

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


def test_search_is_planned_for_its_values(app_engine, tenant, search):
    """The plan remains good after many repetitions, when PostgreSQL would reuse a plan of the connection."""
    kept = "SELECT count(*), coalesce(sum(generic_plans), 0) FROM pg_prepared_statements WHERE statement LIKE %s"
    for _ in range(20):
        with session_scope(TenantScope(tenant.id), engine=app_engine) as session:
            decisions.search_decisions(session, tenant_id=tenant.id, mac=MAC)
            prepared, generic = session.connection().exec_driver_sql(kept, ("SELECT auth_log.%",)).one()
    assert prepared > 0
    assert generic == 0
