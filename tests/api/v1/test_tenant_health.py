"""The health of all tenants: fields, permissions, orders, pages and plans. And the numbers of one tenant over HTTP."""

import re
from datetime import datetime, timedelta
from uuid import uuid4

import httpx
import pytest
from sqlalchemy import Engine, insert, text, update
from sqlalchemy.orm import Session

from nac.kit.clock import utc_now
from nac.kit.db import CredentialScope, MspScope, PersonScope, PlatformScope, TenantScope, session_scope
from nac.kit.ids import TenantId
from nac.models import Certificate, CertificateAuthority, Msp, Nas, NasSighting, SignUp, Tenant, Trial
from tests.api.v1.conftest import As
from tests.factories.decision_counts import count_decisions
from tests.factories.rows import make_row
from tests.factories.tenancy import Platform, make_tenant
from tests.statements import counted

PATH = "/v1/tenant-health"
HOUR, DAY = timedelta(hours=1), timedelta(days=1)


@pytest.fixture
def bravo(app_engine: Engine, platform: Platform) -> TenantId:
    return TenantId(make_tenant(app_engine, platform, "bravo").id)


@pytest.fixture
def foreign(owner_engine: Engine, app_engine: Engine, platform: Platform) -> TenantId:
    """A tenant of another MSP."""
    tenant_id = TenantId(make_tenant(app_engine, platform, "foreign").id)
    with Session(owner_engine) as session, session.begin():
        msp_id = uuid4()
        session.execute(insert(Msp).values(id=msp_id, slug="other", name="Other"))
        session.execute(update(Tenant).where(Tenant.id == tenant_id).values(msp_id=msp_id))
    return tenant_id


def by_slug(answer: httpx.Response) -> dict[str, dict]:
    assert answer.status_code == 200, answer.text
    return {each["slug"]: each for each in answer.json()["items"]}


def slugs(answer: httpx.Response) -> list[str]:
    return list(by_slug(answer))


def add_nas(owner_engine: Engine, tenant_id: TenantId, seen_ago: timedelta | None) -> None:
    with Session(owner_engine) as session, session.begin():
        nas = make_row(session, Nas.__table__, tenant_id)
        if seen_ago is not None:
            values = {"nas_id": nas["id"], "last_seen_at": utc_now() - seen_ago}
            make_row(session, NasSighting.__table__, tenant_id, **values)


def add_certificate(owner_engine: Engine, tenant_id: TenantId, name: str, left: timedelta, **values: object) -> None:
    with Session(owner_engine) as session, session.begin():
        authority = make_row(session, CertificateAuthority.__table__, tenant_id)
        given = {"authority_id": authority["id"], "common_name": name, "not_after": utc_now() + left}
        given |= {"status": "valid", "certificate_der": b"x", "profile": "eap-client-device"} | values
        make_row(session, Certificate.__table__, tenant_id, **given)


def test_health_has_requests_nases_and_certificates(
    api: httpx.Client, tenant_id: TenantId, bravo: TenantId, foreign: TenantId, owner_engine: Engine
) -> None:
    now = utc_now()
    count_decisions(owner_engine, tenant_id, now, permitted=5, quarantined=1, rejected=2)
    count_decisions(owner_engine, tenant_id, now - 23 * HOUR, rejected=2)
    count_decisions(owner_engine, tenant_id, now - 25 * HOUR, rejected=100)
    count_decisions(owner_engine, foreign, now, rejected=100)
    for ago in (None, 59 * HOUR / 60, 61 * HOUR / 60, 29 * DAY, 31 * DAY):
        add_nas(owner_engine, tenant_id, ago)
    for name, left in (("a", DAY), ("b", 29 * DAY), ("c", 31 * DAY), ("d", -DAY), ("e", DAY), ("e", 300 * DAY)):
        add_certificate(owner_engine, tenant_id, name, left)
    add_certificate(owner_engine, tenant_id, "f", DAY, status="revoked")
    found = by_slug(api.get(PATH))
    assert sorted(found) == ["alpha", "bravo"]
    hours = found["alpha"].pop("hours")
    zero = {"permitted": 0, "rejected": 0}
    assert hours == [zero | {"rejected": 2}, *[zero] * 22, {"permitted": 6, "rejected": 2}]
    assert datetime.fromisoformat(found["alpha"].pop("last_request_at")) == now.replace(second=0, microsecond=0)
    assert found["alpha"] == {
        "slug": "alpha",
        "name": "alpha",
        "msp": "acme",
        "state": "active",
        "trial_ends_at": None,
        "permitted_24h": 6,
        "rejected_24h": 4,
        "reject_rate": 0.4,
        "nases": 5,
        "silent_nases": 2,
        "expiring_certificates": 2,
    }
    nothing = {"hours": [zero] * 24, "permitted_24h": 0, "rejected_24h": 0, "reject_rate": None}
    nothing |= {"last_request_at": None, "nases": 0, "silent_nases": 0, "expiring_certificates": 0}
    assert found["bravo"] == found["bravo"] | nothing


def test_trial_and_suspension_are_states(
    api: httpx.Client, tenant_id: TenantId, bravo: TenantId, owner_engine: Engine
) -> None:
    ends_at = utc_now().replace(microsecond=0) + 3 * DAY
    with Session(owner_engine) as session, session.begin():
        sign_up = {"id": uuid4(), "email": "a@example.com", "domain": "example.com", "organisation": "A"}
        session.execute(insert(SignUp).values(**sign_up, expires_at=ends_at))
        trial = {"sign_up_id": sign_up["id"], "organisation": "A", "email": "a@example.com", "ends_at": ends_at}
        limits = {"purged_at": ends_at, "most_endpoints": 5, "most_authentications": 5}
        session.execute(insert(Trial).values(tenant_id=tenant_id, **trial, **limits))
        session.execute(update(Tenant).where(Tenant.id == bravo).values(status="suspended"))
    found = by_slug(api.get(PATH))
    assert [found["alpha"]["state"], found["bravo"]["state"]] == ["trial", "suspended"]
    assert datetime.fromisoformat(found["alpha"]["trial_ends_at"]) == ends_at


def test_fields_without_permission_are_null(
    api: httpx.Client, tenant_id: TenantId, bravo: TenantId, as_tenant: As, as_msp: As, owner_engine: Engine
) -> None:
    count_decisions(owner_engine, tenant_id, utc_now(), rejected=7)
    add_nas(owner_engine, tenant_id, 2 * HOUR)
    log = {"hours", "permitted_24h", "rejected_24h", "reject_rate", "last_request_at"}
    nases = {"nases", "silent_nases"}
    for permission, known in ((), set()), (("log.read",), log), (("nas.read",), nases):
        for headers in (as_msp("tenant.read", *permission), as_tenant("tenant.read", *permission)):
            for sort in ("name", "requests", "-reject_rate", "silent_nases"):
                row = by_slug(api.get(PATH, headers=headers, params={"sort": sort}))["alpha"]
                hidden = {name for name in log | nases | {"expiring_certificates"} if row[name] is None}
                assert hidden == (log | nases | {"expiring_certificates"}) - known, (permission, sort)
    # A tenant's token sees only this tenant, without the MSP.
    own = by_slug(api.get(PATH, headers=as_tenant()))
    assert [(row["slug"], row["msp"], row["rejected_24h"]) for row in own.values()] == [("alpha", None, 7)]
    assert slugs(api.get(PATH, headers=as_tenant("log.read"))) == []


def test_orders_filters_and_pages(
    api: httpx.Client, operator: dict, tenant_id: TenantId, bravo: TenantId, foreign: TenantId, owner_engine: Engine
) -> None:
    count_decisions(owner_engine, tenant_id, utc_now(), permitted=90, rejected=10)
    count_decisions(owner_engine, bravo, utc_now(), permitted=1, rejected=1)
    add_nas(owner_engine, bravo, 2 * HOUR)
    orders = {
        "name": ["alpha", "bravo", "foreign"],
        "-name": ["foreign", "bravo", "alpha"],
        "requests": ["foreign", "bravo", "alpha"],
        "-requests": ["alpha", "bravo", "foreign"],
        "reject_rate": ["alpha", "bravo", "foreign"],
        # Without requests, there is no rate.
        "-reject_rate": ["bravo", "alpha", "foreign"],
        "-silent_nases": ["bravo"],
    }
    for sort, expected in orders.items():
        assert slugs(api.get(PATH, headers=operator, params={"sort": sort}))[: len(expected)] == expected
        seen: list[str] = []
        after = ""
        while after is not None:
            page = api.get(PATH, headers=operator, params={"sort": sort, "limit": 1, "after": after})
            seen += slugs(page)
            after = page.json()["next"]
        assert seen[: len(expected)] == expected, sort
        assert sorted(seen) == ["alpha", "bravo", "foreign"]
    assert slugs(api.get(PATH, headers=operator, params={"msp": "other"})) == ["foreign"]
    assert slugs(api.get(PATH, headers=operator, params={"msp": "nobody"})) == []
    assert slugs(api.get(PATH, headers=operator, params={"text": "RAV"})) == ["bravo"]
    assert slugs(api.get(PATH, params={"msp": "other"})) == []


def test_invalid_cursors_are_rejected(api: httpx.Client, bravo: TenantId) -> None:
    cursor = api.get(PATH, params={"limit": 1}).json()["next"]
    for params in ({"after": "x"}, {"after": cursor, "sort": "requests"}, {"after": "WyJuYW1lIiwgWzcsICJ4Il1d"}):
        answer = api.get(PATH, params=params)
        assert (answer.status_code, answer.json()["place"]) == (422, "after")
    assert api.get(PATH, params={"sort": "slug"}).status_code == 422


def test_suspended_msp_hides_its_tenants(api: httpx.Client, owner_engine: Engine, platform: Platform) -> None:
    assert slugs(api.get(PATH)) == ["alpha"]
    with Session(owner_engine) as session, session.begin():
        session.execute(update(Msp).where(Msp.id == platform.msp_id).values(status="suspended"))
    answer = api.get(PATH)
    assert answer.status_code != 200 or slugs(answer) == []


def test_number_of_statements_does_not_grow(
    api: httpx.Client, app_engine: Engine, owner_engine: Engine, platform: Platform
) -> None:
    for number in range(3):
        count_decisions(owner_engine, TenantId(make_tenant(app_engine, platform, f"more-{number}").id), utc_now())
    for sort in ("name", "-requests", "-silent_nases"):
        with counted(Engine) as statements:
            assert len(slugs(api.get(PATH, params={"sort": sort}))) == 4
        assert len([each for each in statements if "set_config" not in each]) < 10


def test_hours_are_read_by_index(tenant_id: TenantId, app_engine: Engine, owner_engine: Engine) -> None:
    """Many tenants have 2,000 hours each. The statement reads only the last 24 hours of the given tenant."""
    with Session(owner_engine) as session, session.begin():
        fill = text(
            "INSERT INTO decision_counts SELECT t, 3600, date_trunc('hour', now()) - n * interval '1 hour', 1, 0, 1"
            " FROM generate_series(0, 2000) n, unnest(CAST(:ids AS uuid[])) t"
        )
        session.execute(fill, {"ids": [tenant_id, *(uuid4() for _ in range(10))]})
    with owner_engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text("ANALYZE decision_counts"))
    call = "SELECT * FROM count_tenant_decisions(:ids, date_trunc('hour', now()) - interval '23 hours')"
    with session_scope(TenantScope(tenant_id), engine=app_engine) as session:
        explain = text(f"EXPLAIN (ANALYZE, BUFFERS, TIMING OFF) {call}")
        session.execute(explain, {"ids": [tenant_id]})
        plan = "\n".join(session.scalars(explain, {"ids": [tenant_id]}))
    blocks = int(re.findall(r"shared hit=(\d+)", plan)[0])
    assert "rows=24 " in plan
    assert blocks < 60, plan


def test_counts_and_reasons_over_http(
    api: httpx.Client, tenant_id: TenantId, bravo: TenantId, as_tenant: As, owner_engine: Engine
) -> None:
    count_decisions(owner_engine, tenant_id, utc_now(), permitted=3, rejected=1, reason="wrong-password")
    count_decisions(owner_engine, bravo, utc_now(), rejected=9)
    items = api.get("/v1/tenants/alpha/decision-counts").json()["items"]
    assert len(items) == 60
    assert items[0] == {"start": items[0]["start"], "permitted": 0, "quarantined": 0, "rejected": 0}
    assert sum(each["permitted"] for each in items) == 3
    reasons = api.get("/v1/tenants/alpha/reject-reasons").json()
    assert (reasons["rejected"], len(reasons["items"])) == (1, 1)
    assert reasons["items"][0] == reasons["items"][0] | {
        "reason": "wrong-password",
        "title": "Wrong password",
        "remedy": "The password is wrong. Correct the password on the device, or reset the password.",
        "count": 1,
        "share": 1.0,
    }
    for path in ("decision-counts", "reject-reasons"):
        assert api.get(f"/v1/tenants/alpha/{path}", headers=as_tenant("nas.read")).status_code == 403
        assert api.get(f"/v1/tenants/bravo/{path}", headers=as_tenant()).status_code == 404
        wrong = api.get(
            f"/v1/tenants/alpha/{path}", params={"since": "2026-01-02T00:00:00Z", "until": "2026-01-01T00:00:00Z"}
        )
        assert (wrong.status_code, wrong.json()["place"]) == (422, "until")
        old = api.get(f"/v1/tenants/alpha/{path}", params={"since": "2020-01-01T00:00:00Z"})
        assert old.status_code == 422
    assert api.get("/v1/tenants/alpha/decision-counts", params={"interval": "week"}).status_code == 422


@pytest.mark.parametrize(
    "call",
    [
        "count_tenant_decisions(:ids, now() - interval '1 day')",
        "find_last_decisions(:ids)",
        "count_tenant_nases(:ids, now() - interval '1 day', now())",
        "count_expiring_certificates(:ids, now() + interval '1 day', 10)",
    ],
)
def test_functions_count_only_readable_tenants(
    tenant_id: TenantId,
    bravo: TenantId,
    foreign: TenantId,
    app_engine: Engine,
    owner_engine: Engine,
    platform: Platform,
    call: str,
) -> None:
    """The functions bypass row-level security, so they check the scope."""
    everyone = [tenant_id, bravo, foreign]
    for each in everyone:
        count_decisions(owner_engine, each, utc_now(), permitted=1)
    scopes = {
        TenantScope(tenant_id): {tenant_id},
        MspScope(platform.msp_id): {tenant_id, bravo},
        PlatformScope(): set(everyone),
        PersonScope(uuid4()): set(),
        CredentialScope(""): set(),
    }
    for scope, expected in scopes.items():
        with session_scope(scope, engine=app_engine) as session:
            found = session.scalars(text(f"SELECT tenant_id FROM {call}"), {"ids": everyone}).all()
        assert set(found) == expected, scope
