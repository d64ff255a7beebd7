"""Search across tenants."""

from datetime import timedelta

import httpx
import pytest
from sqlalchemy import Engine, text
from sqlalchemy.orm import Session

from nac.core.access.grants import Owner
from nac.kit.clock import utc_now
from nac.kit.db import PlatformScope, TenantScope, session_scope
from nac.kit.db.base import Base
from nac.kit.ids import TenantId
from nac.models import Tenant
from tests.api.v1.conftest import bearer
from tests.api.v1.responses import error_paths
from tests.factories.rows import make_row
from tests.factories.tenancy import Platform, make_tenant

NOW = utc_now()
MAC = "02a0c0000001"
MAC_WITH_COLONS = "02:a0:c0:00:00:01"


@pytest.fixture
def bravo_id(app_engine: Engine, platform: Platform, tenant_id: TenantId) -> TenantId:
    """Another tenant of the MSP."""
    return TenantId(make_tenant(app_engine, platform, "bravo").id)


@pytest.fixture
def write(owner_engine: Engine, tenant_id: TenantId):
    def write(table: str, tenant: TenantId = tenant_id, **values: object) -> None:
        with Session(owner_engine) as session, session.begin():
            make_row(session, Base.metadata.tables[table], tenant, **values)

    return write


@pytest.fixture
def log(write, tenant_id: TenantId):
    def log(minutes_ago: int, tenant: TenantId = tenant_id, **values: object) -> None:
        values = {"permitted": True, "verdict": "permit", "reason": "rule-permitted", "certificate_serial": "", **values}
        write("auth_log", tenant, at=NOW - timedelta(minutes=minutes_ago), **values)

    return log


@pytest.fixture
def find(api: httpx.Client):
    def find(words: str, headers: dict[str, str] | None = None, **query: object) -> list[dict]:
        response = api.get("/v1/search", params={"text": words, **query}, headers=headers)
        assert response.status_code == 200, response.text
        return response.json()["items"]

    return find


def _names(items: list[dict]) -> list[tuple[str, str, str]]:
    return [(item["kind"], item["tenant"], item["title"]) for item in items]


def test_device_is_found_with_its_last_decision(find, write, log) -> None:
    write("endpoints", mac=MAC, name="Lab Printer 7", owner="Facilities", vendor="", set_profile="printer")
    log(5, mac=MAC)
    log(1, mac=MAC, permitted=False, verdict="deny", reason="fallback-denied", nas_identifier="switch-1", vlan="7")
    for words in (MAC, "02-A0-C0-00-00-01", "02a0.c000.0001", "02A0C0-000001", "02a0", "02:a0:c", "printer", "b pr"):
        [item] = find(words)
        assert (item["kind"], item["tenant"], item["mac"]) == ("endpoint", "alpha", MAC_WITH_COLONS), words
    assert item["title"] == "Lab Printer 7"
    assert item["detail"] == f"Approved device {MAC_WITH_COLONS}, profile printer, owner Facilities"
    last = item["last_decision"]
    assert (last["permitted"], last["verdict"], last["reason"]) == (False, "deny", "fallback-denied")
    assert (last["nas"], last["vlan"], last["title"]) == ("switch-1", "7", "No rule matched")
    assert last["remedy"]
    assert find("02b0") == find("pr") == find("100%_") == []


def test_unregistered_device_is_found_in_the_log(find, log, tenant_id, api) -> None:
    log(3, mac=MAC, permitted=False, verdict="deny", reason="unknown-mac")
    log(60 * 24 * 20, mac="02a0c0000002")
    [item] = find(MAC)
    assert (item["kind"], item["mac"], item["last_decision"]["reason"]) == ("decision", MAC_WITH_COLONS, "unknown-mac")
    decision = api.get(f"/v1/tenants/alpha/decisions/{item['last_decision']['id']}").json()
    assert decision["remedy"] == item["last_decision"]["remedy"]
    assert find("02a0c0000002") == []


def test_user_nas_session_and_certificate_are_found(find, write, log, api) -> None:
    write("users", name="Anna.Berg")
    log(1, identity="anna.berg", method="pap")
    nas = {"name": "sw-2og-1", "identifier": "Building-2", "address": "192.0.2.20", "site": "main"}
    assert api.post("/v1/tenants/alpha/nases", json=nas).status_code == 201
    live = {"framed_ip": "10.1.0.21", "stopped_at": None, "framed_ipv6": "2001:db8::10", "started_at": NOW}
    write("sessions", mac=MAC, identity="anna", nas_key="switch-9|192.0.2.9", nas_id=None, **live)
    write("sessions", mac=MAC, identity="ended", nas_id=None, **live | {"stopped_at": NOW})
    serial = bytes.fromhex("5f3a9c0e1b7d2468")
    issued = {"status": "valid", "certificate_der": b"x", "not_after": NOW + timedelta(days=9), "endpoint_id": None}
    write("certificates", serial=serial, common_name="Laptop-1", profile="eap-client-user", **issued)
    log(2, certificate_serial=serial.hex(), method="eap-tls")

    [user] = find("anna.b")
    assert (user["kind"], user["user"], user["last_decision"]["permitted"]) == ("user", "Anna.Berg", True)
    for words in ("SW-2og", "building", "192.0.2.20"):
        [item] = find(words)
        assert (item["kind"], item["nas"], item["last_decision"]) == ("nas", "sw-2og-1", None), words
        assert item["detail"] == "NAS, site main, identifier Building-2, address 192.0.2.20"
    for words in ("10.1.0.21", "2001:DB8:0::10"):
        [item] = find(words)
        assert (item["kind"], item["user"], item["mac"], item["nas"]) == ("session", "anna", MAC_WITH_COLONS, "switch-9")
        assert api.get(f"/v1/tenants/alpha/sessions/{item['session']}").status_code == 200
    for words in ("5F3A9C", "5f:3a:9c:0", serial.hex(), "laptop-"):
        [item] = find(words)
        assert (item["kind"], item["serial"], item["title"]) == ("certificate", serial.hex(), "Laptop-1"), words
        assert item["last_decision"]["permitted"]
    assert find("5f3a9d") == find("5f3a9c0e1b7d24680") == find("10.1.0.22") == []


def test_best_hit_is_first(find, write, log, tenant_id, bravo_id) -> None:
    for number, (tenant, name) in enumerate([(tenant_id, "printer"), (bravo_id, "printer"), (bravo_id, "printer 2")]):
        write("endpoints", tenant, mac=f"02a0c000000{number}", name=name)
    log(20, tenant_id, mac="02a0c0000000")
    # Newer than the creation of the devices.
    log(-1, bravo_id, mac="02a0c0000001")
    log(-2, bravo_id, mac="02a0c0000002")
    expected = [("endpoint", "bravo", "printer"), ("endpoint", "alpha", "printer"), ("endpoint", "bravo", "printer 2")]
    assert _names(find("printer")) == expected
    assert _names(find("printer", limit=1)) == expected[:1]
    assert _names(find("printer", tenant="alpha")) == [expected[1]]
    assert find("printer", tenant="unknown") == find("printer", msp="unknown") == []
    assert len(find("printer", tenant=str(bravo_id), msp="acme")) == 2


def test_kinds_without_permission_are_left_out(find, write, log, as_tenant, as_msp, tenant_id, bravo_id) -> None:
    for tenant in (tenant_id, bravo_id):
        write("endpoints", tenant, mac=MAC, name="anna laptop")
        write("users", tenant, name="anna")
        log(1, tenant, mac=MAC, identity="anna")
    assert _names(find("anna", as_tenant("user.read"))) == [("user", "alpha", "anna")]
    [item] = find(MAC, as_tenant("endpoint.read"))
    assert (item["kind"], item["last_decision"]) == ("endpoint", None)
    # Without `endpoint.read`, the response does not reveal whether the device is registered.
    [item] = find(MAC, as_tenant("log.read"))
    assert (item["kind"], item["title"], item["detail"]) == (
        "decision",
        MAC_WITH_COLONS,
        "Device in the authentication log",
    )
    assert find(MAC, as_tenant("nas.read")) == []
    assert {item["tenant"] for item in find("anna", as_msp("endpoint.read", "log.read"))} == {"alpha", "bravo"}


def test_tenants_of_another_msp_are_not_found(
    find, write, owner_engine, app_engine, make_token, tenant_id, bravo_id
) -> None:
    msps = Base.metadata.tables["msps"]
    with Session(owner_engine) as session, session.begin():
        other = session.scalar(msps.insert().values(slug="other", name="Other").returning(msps.c.id))
        session.get_one(Tenant, bravo_id).msp_id = other
    for tenant in (tenant_id, bravo_id):
        write("endpoints", tenant, mac=MAC, name="laptop")
    assert _names(find("laptop")) == [("endpoint", "alpha", "laptop")]
    assert find("laptop", tenant="bravo") == find("laptop", msp="other") == []
    of_other = bearer(make_token(Owner(other)))
    assert _names(find("laptop", of_other)) == [("endpoint", "bravo", "laptop")]
    # The database drops tenants beyond the scope.
    asked = text("SELECT tenant_id FROM search_endpoints(:tenants, NULL, NULL, 'laptop', '%laptop%', 50)")
    for scope, found in (
        (TenantScope(tenant_id), {tenant_id}),
        (TenantScope(bravo_id), {bravo_id}),
        (PlatformScope(), {tenant_id, bravo_id}),
    ):
        with session_scope(scope, engine=app_engine) as session:
            assert set(session.scalars(asked, {"tenants": [tenant_id, bravo_id]})) == found


@pytest.mark.parametrize(
    ("query", "paths"),
    [
        ({}, {"text"}),
        ({"text": "x"}, {"text"}),
        ({"text": " x "}, {"text"}),
        ({"text": "x" * 254}, {"text"}),
        ({"text": "anna", "limit": 51}, {"limit"}),
        ({"text": "anna", "kind": "user"}, {"kind"}),
    ],
)
def test_invalid_input_is_rejected(api: httpx.Client, query: dict[str, object], paths: set[str]) -> None:
    response = api.get("/v1/search", params=query)
    assert response.status_code == 422
    assert set(error_paths(response)) == paths
