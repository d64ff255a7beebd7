"""The audit log: filters and pages, limited to the owners whose entries the caller may read."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import httpx
import pytest
from sqlalchemy import Engine, event, text

from nac.core.access.grants import Owner
from nac.kit.clock import utc_now
from nac.kit.db import PlatformScope, get_process_engine, queries, session_scope
from nac.kit.ids import MspId, TenantId
from nac.tenancy import msps
from tests.api.v1.conftest import bearer
from tests.api.v1.responses import error_paths, walk
from tests.factories.tenancy import ACTOR, Platform, make_tenant

NOW = utc_now().replace(microsecond=0)
WHERE = {"alpha": "/v1/tenants/alpha/audit", "msp": "/v1/msps/acme/audit", "platform": "/v1/platform/audit"}
Write = Callable[..., None]


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
def write(owner_engine: Engine, owners: dict[str, Owner]) -> Write:
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
        } | told
        places = ", ".join(f":{column}" for column in values)
        with owner_engine.begin() as connection:
            connection.execute(text(f"INSERT INTO audit_log ({', '.join(values)}) VALUES ({places})"), values)

    return write


@pytest.fixture
def tokens(make_token, owners: dict[str, Owner]) -> dict[str, dict[str, str]]:
    """Tokens of auditors, who have only read access to the audit log."""
    return {name: bearer(make_token(owner, "audit.read")) for name, owner in owners.items()}


@pytest.fixture
def listed(api: httpx.Client, tokens: dict[str, dict[str, str]]) -> Callable[..., str]:
    """Return the one-letter targets of all pages of a log."""

    def listed(caller: str, path: str = "", **wanted: Any) -> str:
        api.headers.update(tokens[caller])
        found = walk(api, path or WHERE[caller], **{"since": (NOW - timedelta(days=1)).isoformat()} | wanted)
        return "".join(each["target"] for each in found if len(each["target"]) == 1)

    return listed


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
def test_filters_match_entries_in_each_chain(write: Write, listed, where: str) -> None:
    for minutes, more in enumerate(
        (
            *({}, {"actor": "person:bob"}, {"action": "other.remove"}, {}),
            *({"request_id": "req-5"}, {"address": "192.0.2.7"}, {"address": "2001:db8::7"}),
        )
    ):
        write(where, "abcdefg"[minutes], minutes, **more)
    for wanted, found in FILTERS:
        assert listed(where, **wanted) == found, wanted


def test_owner_reads_its_log_and_those_below(api: httpx.Client, write: Write, listed, tokens) -> None:
    """A tenant reads its own entries, an MSP also its tenants' entries, and the platform all entries."""
    for number, name in enumerate(("alpha", "bravo", "foreign", "msp", "other", "platform")):
        write(name, "abfmop"[number], number)
    assert (listed("alpha"), listed("msp"), listed("platform")) == ("a", "abm", "abfmop")
    assert (listed("bravo", "/v1/tenants/bravo/audit"), listed("other", "/v1/msps/other/audit")) == ("b", "fo")
    # A caller with access to the parent can read the log of a tenant.
    assert listed("msp", WHERE["alpha"]) == "a"
    rows = api.get(WHERE["platform"], headers=tokens["platform"]).json()["items"]
    ids = {each["target"]: each["id"] for each in rows}
    for caller, path, status in (
        ("alpha", f"{WHERE['alpha']}/{ids['a']}", 200),
        ("alpha", f"{WHERE['alpha']}/{ids['b']}", 404),
        ("alpha", f"{WHERE['alpha']}/{ids['m']}", 404),
        ("alpha", f"{WHERE['alpha']}/{2**63}", 422),
        ("msp", f"{WHERE['msp']}/{ids['b']}", 200),
        ("msp", f"{WHERE['msp']}/{ids['f']}", 404),
        ("other", f"/v1/msps/other/audit/{ids['b']}", 404),
    ):
        assert api.get(path, headers=tokens[caller]).status_code == status, (caller, path)


@pytest.mark.parametrize("where", WHERE)
def test_pages_list_each_entry_once_despite_equal_times(api: httpx.Client, write: Write, tokens, where: str) -> None:
    for number in range(7):
        write(where, "abcdefg"[number], number // 3, actor="person:bob")
    pages, after = [], ""
    while after is not None:
        wanted = {"actor": "person:bob", "limit": 2, "after": after}
        answer = api.get(WHERE[where], params=wanted, headers=tokens[where]).json()
        pages.append("".join(each["target"] for each in answer["items"]))
        after = answer["next"]
        if after:
            # Entries written meanwhile are newer, and appear on no later page.
            write(where, "x", -1, actor="person:bob")
    # Entries of equal time are listed newest first.
    assert pages == ["cb", "af", "ed", "g"]


@pytest.mark.parametrize("where", ["msp", "platform"])
def test_sparse_matches_are_searched_in_steps(api: httpx.Client, write: Write, tokens, monkeypatch, where: str) -> None:
    monkeypatch.setattr(queries, "MAX_SCANNED_ROWS", 3)
    write(where, "r", 100, actor="person:rare")
    for number in range(8):
        write(where, "o", number)
    found, pages, after = "", 0, ""
    while after is not None:
        answer = api.get(WHERE[where], params={"actor": "person:rare", "after": after}, headers=tokens[where]).json()
        found += "".join(each["target"] for each in answer["items"])
        pages, after = pages + 1, answer["next"]
        assert pages < 30
    assert (found, pages > 2) == ("r", True)


def test_concurrent_writes_repeat_no_entries(write: Write, listed, monkeypatch: pytest.MonkeyPatch) -> None:
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
        for target in "xy":
            write("msp", target, -200, actor="person:bob")

    engine = get_process_engine()
    event.listen(engine, "after_cursor_execute", write_entry_meanwhile)
    try:
        found = listed("msp", actor="person:bob", limit=100)
    finally:
        event.remove(engine, "after_cursor_execute", write_entry_meanwhile)
    assert (disturbed, found) == (True, "abcdefgh")


def test_invalid_parameters_are_rejected_with_their_path(api: httpx.Client) -> None:
    for name, value, place in (
        ("address", "nowhere", "address"),
        ("since", "2026-01-01T00:00:00", "since"),
        ("actor", "a\0b", "query"),
        ("text", "x" * 201, "text"),
    ):
        answer = api.get(WHERE["alpha"], params={name: value})
        assert (answer.status_code, error_paths(answer)) == (422, [place]), answer.text
