"""Decisions, accounting and usage."""

from datetime import timedelta

import httpx
import pytest
from sqlalchemy import Engine
from sqlalchemy.orm import Session

from api import slow_result_cache
from nac.kit.clock import utc_now
from nac.kit.db.base import Base
from nac.kit.ids import TenantId
from nac.sessions import log_search
from tests.api.v1.responses import error_paths
from tests.factories.rows import make_row

TENANT = "/v1/tenants/alpha"
NOW = utc_now()
MAC = "02a0c0000001"
_DENIED = {"permitted": False, "verdict": "deny", "reason": "unknown-mac"}


@pytest.fixture
def write(owner_engine: Engine, tenant_id: TenantId):
    def write(table: str, minutes_ago: int = 0, **values: object) -> None:
        moment = {"usage_hours": "hour"}.get(table, "at")
        with Session(owner_engine) as session, session.begin():
            at = NOW - timedelta(minutes=minutes_ago)
            make_row(session, Base.metadata.tables[table], tenant_id, **{moment: at} | values)

    return write


def test_decision_is_listed_and_shown_with_its_inputs(api: httpx.Client, write) -> None:
    write(
        "auth_log",
        mac=MAC,
        identity="ann",
        rule_name="staff",
        reply=[["Reply-Message", ":=", "no"]],
        request={"method": ["mab"], "radius.User-Name": ["outer"]},
        nas_address="192.0.2.7",
        nas_identifier="switch-1",
        certificate_serial="",
        **_DENIED,
    )
    write("auth_log", 5, mac="02a0c0000002", permitted=True, verdict="permit", reason="rule-permitted")
    page = api.get(f"{TENANT}/decisions").json()
    assert (len(page["items"]), page["next"], page["searched_to"]) == (2, None, None)
    told = page["items"][0]
    named = {"mac": "02:a0:c0:00:00:01", "user": "ann", "outer_user": "outer", "nas": "switch-1"}
    assert told.items() >= (named | {"verdict": "deny", "reason": "unknown-mac", "rule": "staff"}).items()
    assert all((told["title"], told["remedy"]))
    assert page["items"][1]["remedy"] == ""
    whole = api.get(f"{TENANT}/decisions/{told['id']}").json()
    assert told.items() <= whole.items()
    assert whole["reply"] == [{"attribute": "Reply-Message", "operator": ":=", "value": "no"}]
    assert whole["request"]["method"] == ["mab"]
    for unknown in ("1-1", "x", f"{told['id']}0"):
        assert api.get(f"{TENANT}/decisions/{unknown}").json()["code"] == "decision-not-found"


def test_filters_match_the_expected_decisions(api: httpx.Client, write) -> None:
    write("auth_log", 0, mac=MAC, identity="a", **_DENIED)
    write("auth_log", 10, identity="b", verdict="quarantine")
    write("auth_log", 20, identity="c", nas_identifier="switch-1", monitored="site", verdict="permit", method="mab")
    for wanted, found in (
        ({"mac": "02-A0-C0-00-00-01"}, "a"),
        ({"user": "B"}, "b"),
        ({"verdict": "quarantine"}, "b"),
        ({"reason": "unknown-mac"}, "a"),
        ({"method": "mab"}, "c"),
        ({"rejects": True}, "a"),
        ({"monitored": True}, "c"),
        ({"nas": "switch-1"}, "c"),
        ({"site": "main"}, ""),
        ({"since": (NOW - timedelta(minutes=15)).isoformat()}, "ab"),
        ({"until": (NOW - timedelta(minutes=5)).isoformat()}, "bc"),
    ):
        page = api.get(f"{TENANT}/decisions", params=wanted)
        assert page.status_code == 200, page.text
        assert "".join(each["user"] for each in page.json()["items"]) == found, wanted


@pytest.mark.parametrize(
    ("table", "path", "wanted"),
    [("auth_log", "decisions", {"nas": "ann"}), ("accounting_log", "accounting", {"user": "ann"})],
)
def test_search_resumes_where_it_stopped(
    api: httpx.Client, write, monkeypatch, table: str, path: str, wanted: dict[str, str]
) -> None:
    monkeypatch.setattr(log_search, "SLICE_ROWS", 2)
    monkeypatch.setattr(log_search, "BUDGET_SECONDS", 0)
    for number in range(7):
        name = "ann" if number == 6 else "bob"
        write(table, number, **({"nas_identifier": name} if "nas" in wanted else {"identity": name}))
    pages, after = [], ""
    while after is not None:
        answer = api.get(f"{TENANT}/{path}", params=wanted | {"after": after})
        assert answer.status_code == 200, answer.text
        pages.append(answer.json())
        after = pages[-1]["next"]
    assert [len(page["items"]) for page in pages] == [0, 0, 0, 1]
    assert all(page["searched_to"] for page in pages[:-1])


@pytest.mark.parametrize("path", ["decisions", "accounting"])
def test_invalid_parameters_are_rejected_with_their_path(api: httpx.Client, path: str) -> None:
    for wanted, place in (
        ({"mac": "xyz"}, "mac"),
        ({"since": "2026-01-02T00:00:00Z", "until": "2026-01-01T00:00:00Z"}, "until"),
        ({"user": "\0"}, "query"),
    ):
        answer = api.get(f"{TENANT}/{path}", params=wanted)
        assert (answer.status_code, error_paths(answer)) == (422, [place]), answer.text


def test_unknown_reason_and_verdict_are_rejected(api: httpx.Client) -> None:
    for name in ("reason", "verdict", "method"):
        answer = api.get(f"{TENANT}/decisions", params={name: "perhaps"})
        assert (answer.status_code, error_paths(answer)) == (422, [name])
    assert api.get(f"{TENANT}/decisions", params={"site": "nowhere"}).json()["code"] == "site-not-found"


def test_accounting_is_filtered_and_shown_as_received(api: httpx.Client, write) -> None:
    write("accounting_log", 2, session_id="s1", status_type="Start", mac=MAC)
    write("accounting_log", 1, session_id="s1", status_type="Stop", mac=MAC, attributes=[["Acct-Session-Id", "s1"]])
    write("accounting_log", 0, session_id="s2", status_type="Start", nas_address="192.0.2.7")

    def listed(**wanted: str) -> list[tuple[str, str]]:
        items = api.get(f"{TENANT}/accounting", params=wanted).json()["items"]
        return [(each["session_id"], each["status_type"]) for each in items]

    assert listed(session_id="s1") == [("s1", "Stop"), ("s1", "Start")]
    assert listed(status_type="start") == [("s2", "Start"), ("s1", "Start")]
    assert listed(nas="192.0.2.7") == listed(session_id="s2") == [("s2", "Start")]
    first = api.get(f"{TENANT}/accounting", params={"status_type": "Stop"}).json()["items"][0]
    whole = api.get(f"{TENANT}/accounting/{first['id']}").json()
    assert whole == {**first, "attributes": [["Acct-Session-Id", "s1"]]}
    assert api.get(f"{TENANT}/accounting/1-1").json()["code"] == "accounting-record-not-found"


def test_usage_is_aggregated_as_requested(api: httpx.Client, write) -> None:
    used = {"mac": MAC, "identity": "Ann", "nas_key": "switch-1|", "seconds": 60, "input_octets": 5, "output_octets": 7}
    for row in (1, 2):
        write("usage_hours", 90, session_row=row, **used)
    for by, what in (("endpoint", "02:a0:c0:00:00:01"), ("user", "ann"), ("nas", "switch-1"), ("site", "")):
        told = api.get(f"{TENANT}/usage", params={"by": by}).json()["items"]
        assert told == [{"what": what, "sessions": 2, "seconds": 120, "input_octets": 10, "output_octets": 14}]
    assert api.get(f"{TENANT}/usage", params={"by": "colour"}).status_code == 422


@pytest.mark.parametrize("takes_long", [True, False])
def test_slow_usage_is_cached_with_its_time(api: httpx.Client, write, monkeypatch, takes_long: bool) -> None:
    monkeypatch.setattr(slow_result_cache, "_SLOW_SECONDS", -1 if takes_long else 60)
    monkeypatch.setattr(slow_result_cache, "_RETENTION_FACTOR", 1_000_000)
    told = []
    for row in (1, 2):
        write("usage_hours", session_row=row, seconds=60, input_octets=5, output_octets=7)
        told.append(api.get(f"{TENANT}/usage").json())
    assert told[0]["as_of"] <= told[1]["as_of"]
    assert (told[0] == told[1]) == takes_long
    assert api.get(f"{TENANT}/usage", params={"limit": 5}).json()["items"][0]["sessions"] == 2


def test_usage_within_an_hour_shares_one_response(api: httpx.Client, write, monkeypatch) -> None:
    monkeypatch.setattr(slow_result_cache, "_SLOW_SECONDS", -1)
    monkeypatch.setattr(slow_result_cache, "_RETENTION_FACTOR", 1_000_000)
    hour = NOW.replace(minute=0, second=0, microsecond=0) - timedelta(hours=2)
    write("usage_hours", (NOW - hour).total_seconds() / 60, session_row=1, seconds=60, input_octets=5, output_octets=7)

    def until(**later: int) -> tuple[int, str]:
        told = api.get(f"{TENANT}/usage", params={"until": (hour + timedelta(**later)).isoformat()}).json()
        return len(told["items"]), told["as_of"]

    assert until(hours=0)[0] == 0
    assert until(seconds=1) == until(minutes=59) == until(hours=1) == (1, until(seconds=1)[1])
    assert until(hours=1, seconds=1)[1] != until(hours=1)[1]
