"""The audit log in the API: filters and pages, limited to the owners whose entries the caller may read."""

import base64
import json
from datetime import timedelta

import httpx
import pytest
from sqlalchemy import Engine, event, text

from nac.core.access.grants import Owner
from nac.kit.clock import utc_now
from nac.kit.db import PlatformScope, get_process_engine, queries, session_scope
from nac.kit.ids import MspId, TenantId
from nac.tenancy import msps
from tests.factories.tenancy import ACTOR, Platform, make_tenant

NOW = utc_now().replace(microsecond=0)
WHERE = {"alpha": "/v1/tenants/alpha/audit", "msp": "/v1/msps/acme/audit", "platform": "/v1/platform/audit"}


@pytest.fixture
def owners(app_engine: Engine, platform: Platform, tenant_id: TenantId) -> dict[str, Owner]:
    """Two tenants of one MSP, a tenant of another MSP, the two MSPs, and the platform."""
    with session_scope(PlatformScope(), engine=app_engine) as session:
        other = MspId(msps.create_msp(session, actor=ACTOR, slug="other", name="Other").id)
    bravo = make_tenant(app_engine, platform, "bravo").id
    foreign = make_tenant(app_engine, Platform(other, platform.cell_id), "foreign").id
    return {
        "alpha": Owner(tenant_id=tenant_id),
        "bravo": Owner(tenant_id=TenantId(bravo)),
        "foreign": Owner(tenant_id=TenantId(foreign)),
        "msp": Owner(platform.msp_id),
        "other": Owner(other),
        "platform": Owner(),
    }


@pytest.fixture
def write(owner_engine: Engine, owners: dict[str, Owner]):
    """Function that writes an entry of one owner, some minutes ago."""
    with owner_engine.begin() as connection:
        msp_of = dict(connection.execute(text("SELECT id, msp_id FROM tenants")).all())

    def write(name: str, target: str, minutes_ago: int = 0, **told: str) -> None:
        owner = owners[name]
        values = {
            "at": NOW - timedelta(minutes=minutes_ago),
            "actor": "person:ann",
            "action": "thing.set",
            "target": target,
            "tenant_id": owner.tenant_id,
            "msp_id": owner.msp_id or msp_of.get(owner.tenant_id),
            "request_id": None,
            "address": None,
        } | told
        columns = ", ".join(values)
        with owner_engine.begin() as connection:
            places = ", ".join(f":{column}" for column in values)
            connection.execute(text(f"INSERT INTO audit_log ({columns}) VALUES ({places})"), values)

    return write


@pytest.fixture
def tokens(make_token, owners: dict[str, Owner]) -> dict[str, dict[str, str]]:
    """Tokens of auditors, who have only read access to the audit log."""
    return {name: {"Authorization": f"Bearer {make_token(owner, 'audit.read')}"} for name, owner in owners.items()}


def listed(api: httpx.Client, where: str, headers: dict[str, str], **wanted: object) -> str:
    answer = api.get(where, params={"since": (NOW - timedelta(days=1)).isoformat()} | wanted, headers=headers)
    assert answer.status_code == 200, answer.text
    return "".join(each["target"] for each in answer.json()["items"] if len(each["target"]) == 1)


FILTERS = [
    ({"actor": "person:bob"}, "b"),
    ({"actor": "person:BOB"}, ""),
    ({"action": "other.remove"}, "c"),
    ({"target": "d"}, "d"),
    ({"text": "D"}, "d"),
    ({"text": "%"}, ""),
    ({"request_id": "req-5"}, "e"),
    ({"address": "192.0.2.7"}, "f"),
    ({"address": "2001:db8:0:0::7"}, "g"),
    ({"since": (NOW - timedelta(minutes=2)).isoformat(), "until": NOW.isoformat()}, "bc"),
    ({"actor": "person:ann", "action": "other.remove"}, "c"),
    ({"actor": "person:bob", "action": "other.remove"}, ""),
    ({"actor": "person:bob", "request_id": "req-5"}, ""),
    ({}, "abcdefg"),
]


@pytest.mark.parametrize("where", WHERE)
def test_filters_match_entries_in_each_chain(api: httpx.Client, write, tokens, where: str) -> None:
    write(where, "a", 0)
    write(where, "b", 1, actor="person:bob")
    write(where, "c", 2, action="other.remove")
    write(where, "d", 3)
    write(where, "e", 4, request_id="req-5")
    write(where, "f", 5, address="192.0.2.7")
    write(where, "g", 6, address="2001:db8::7")
    for wanted, found in FILTERS:
        assert listed(api, WHERE[where], tokens[where], **wanted) == found, wanted


def test_owner_reads_its_log_and_those_below(api: httpx.Client, write, tokens) -> None:
    """A tenant reads its own entries, an MSP also its tenants' entries, and the platform all entries."""
    for number, name in enumerate(("alpha", "bravo", "foreign", "msp", "other", "platform")):
        write(name, "abfmop"[number], number)
    assert listed(api, WHERE["alpha"], tokens["alpha"]) == "a"
    assert listed(api, "/v1/tenants/bravo/audit", tokens["bravo"]) == "b"
    assert listed(api, WHERE["msp"], tokens["msp"]) == "abm"
    assert listed(api, "/v1/msps/other/audit", tokens["other"]) == "fo"
    assert listed(api, WHERE["platform"], tokens["platform"]) == "abfmop"
    # A caller with access to the parent can read the log of a tenant.
    assert listed(api, WHERE["alpha"], tokens["msp"]) == "a"
    newest = {}
    for name, where in (("alpha", WHERE["alpha"]), ("bravo", "/v1/tenants/bravo/audit"), ("msp", WHERE["msp"])):
        rows = api.get(where, headers=tokens[name], params={"until": (NOW + timedelta(minutes=1)).isoformat()}).json()
        newest[name] = next(each["id"] for each in rows["items"] if each["target"] == name[0])
    for who, where, status in (
        ("alpha", "/v1/tenants/bravo/audit", 404),
        ("alpha", "/v1/tenants/foreign/audit", 404),
        ("alpha", WHERE["msp"], 404),
        ("alpha", WHERE["platform"], 403),
        ("alpha", f"{WHERE['alpha']}/{newest['bravo']}", 404),
        ("alpha", f"{WHERE['alpha']}/{newest['msp']}", 404),
        ("alpha", f"{WHERE['alpha']}/{newest['alpha']}", 200),
        ("msp", f"{WHERE['msp']}/{newest['bravo']}", 200),
        ("msp", "/v1/tenants/foreign/audit", 404),
        ("msp", "/v1/msps/other/audit", 404),
        ("other", f"/v1/msps/other/audit/{newest['bravo']}", 404),
    ):
        assert api.get(where, headers=tokens[who]).status_code == status, (who, where)
    # An auditor can only read.
    assert api.get("/v1/tenants/alpha/endpoints", headers=tokens["alpha"]).status_code == 403
    assert api.post("/v1/tenants/alpha/endpoints", headers=tokens["alpha"], json={}).status_code == 403


@pytest.mark.parametrize("where", WHERE)
def test_pages_list_each_entry_once_despite_equal_times(api: httpx.Client, write, tokens, where: str) -> None:
    for number in range(7):
        write(where, "abcdefg"[number], number // 3, actor="person:bob")
    pages, after = [], ""
    while after is not None:
        wanted = {"actor": "person:bob", "limit": 2, "after": after}
        answer = api.get(WHERE[where], params=wanted, headers=tokens[where])
        assert answer.status_code == 200, answer.text
        pages.append("".join(each["target"] for each in answer.json()["items"]))
        after = answer.json()["next"]
        if after:
            # Entries written meanwhile are newer, and appear on no later page.
            write(where, "x", -1, actor="person:bob")
    # Entries of equal time are listed newest first.
    assert pages == ["cb", "af", "ed", "g"]


@pytest.mark.parametrize("where", ["msp", "platform"])
def test_sparse_matches_are_searched_in_steps(api: httpx.Client, write, tokens, monkeypatch, where: str) -> None:
    monkeypatch.setattr(queries, "MAX_SCANNED_ROWS", 3)
    write(where, "r", 100, actor="person:rare")
    for number in range(8):
        write(where, "o", number)
    found, pages, after = "", 0, ""
    while after is not None:
        wanted = {"actor": "person:rare", "after": after}
        answer = api.get(WHERE[where], params=wanted, headers=tokens[where]).json()
        found += "".join(each["target"] for each in answer["items"])
        pages, after = pages + 1, answer["next"]
        assert pages < 30
    assert found == "r"
    assert pages > 2


def test_concurrent_writes_repeat_no_entries(api: httpx.Client, write, tokens, monkeypatch) -> None:
    """Another connection writes entries between any two statements of a page."""
    monkeypatch.setattr(queries, "MAX_SCANNED_ROWS", 3)
    for number, target in enumerate("abcdefgh", -100):
        write("msp", target, number, actor="person:bob")
    disturbed = False

    def write_entry_meanwhile(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        nonlocal disturbed
        if "FROM audit_log" not in statement or disturbed:
            return
        disturbed = True
        write("msp", "x", -200, actor="person:bob")
        write("msp", "y", -200, actor="person:bob")

    engine = get_process_engine()
    event.listen(engine, "after_cursor_execute", write_entry_meanwhile)
    try:
        found, after = "", ""
        while after is not None:
            wanted = {"actor": "person:bob", "limit": 100, "after": after}
            answer = api.get(WHERE["msp"], params=wanted, headers=tokens["msp"]).json()
            found += "".join(each["target"] for each in answer["items"])
            after = answer["next"]
    finally:
        event.remove(engine, "after_cursor_execute", write_entry_meanwhile)
    assert disturbed
    assert found == "abcdefgh"


def test_invalid_parameters_are_rejected_with_their_path(api: httpx.Client, tokens) -> None:
    def forged_cursor(key: object) -> str:
        return base64.urlsafe_b64encode(json.dumps(key).encode()).decode().rstrip("=")

    for wanted in (
        {"after": "%%%"},
        {"after": forged_cursor("yesterday|1")},
        {"after": forged_cursor("2026-01-01T00:00:00+00:00")},
        {"after": forged_cursor("0001-01-01T00:00:00+14:00|1")},
        {"after": forged_cursor(["2026", 1])},
        {"address": "nowhere"},
        {"since": "2026-01-01T00:00:00"},
        {"limit": 0},
        {"actor": "a\0b"},
        {"text": "x" * 201},
    ):
        answer = api.get(WHERE["alpha"], params=wanted, headers=tokens["alpha"])
        assert answer.status_code == 422, (wanted, answer.text)
        (name,) = wanted
        assert name in answer.text or "query" in answer.text
    large = {"after": forged_cursor(f"2026-01-01T00:00:00+00:00|{9 * 10**30}")}
    assert api.get(WHERE["alpha"], params=large, headers=tokens["alpha"]).status_code in (200, 422)
    assert api.get(f"{WHERE['alpha']}/{2**63}", headers=tokens["alpha"]).status_code == 422
