"""Sorting and filtering of lists."""

from typing import Any, get_args

import httpx
import pytest
from sqlalchemy import Engine, insert

from api.v1.paging import SortedPaging
from nac.core.access.grants import Owner
from nac.core.jobs.service import JobKind
from nac.models import Job
from tests.api.v1.conftest import MakeToken
from tests.factories.tenancy import Platform
from worker.handlers import JOB_HANDLERS

ALPHA = "/v1/tenants/alpha"
MACS = [f"00:00:5e:00:53:{number:02x}" for number in range(7)]
NAMES = ["b", "ä", "a", "b", "", "日本" * 60, "a"]


@pytest.fixture
def endpoints(api: httpx.Client) -> str:
    for mac, name in zip(MACS, NAMES, strict=True):
        assert api.post(f"{ALPHA}/endpoints", json={"mac": mac, "name": name}).status_code == 201
    return f"{ALPHA}/endpoints"


def walk(api: httpx.Client, path: str, **asked: Any) -> list[dict[str, Any]]:
    rows, after = [], ""
    while after is not None:
        answer = api.get(path, params={"limit": 2, **asked} | ({"after": after} if after else {}))
        assert answer.status_code == 200, answer.text
        rows += answer.json()["items"]
        after = answer.json()["next"]
    return rows


def test_list_is_paged_in_each_order(api: httpx.Client, endpoints: str) -> None:
    by_name = sorted(zip(NAMES, MACS, strict=True))
    for sort, wanted in (
        (None, MACS),
        ("mac", MACS),
        ("-mac", MACS[::-1]),
        ("name", [mac for _, mac in by_name]),
        ("-name", [mac for _, mac in by_name][::-1]),
        ("created_at", MACS),
        ("-created_at", MACS[::-1]),
    ):
        found = walk(api, endpoints, **({"sort": sort} if sort else {}))
        assert [each["mac"] for each in found] == wanted, sort


def test_unknown_order_lists_the_valid_ones(api: httpx.Client, endpoints: str) -> None:
    refused = api.get(endpoints, params={"sort": "owner"})
    assert refused.status_code == 422
    [mistake] = refused.json()["mistakes"]
    assert mistake["place"] == "sort"
    assert "'-created_at'" in mistake["detail"]


def test_cursor_of_another_order_is_rejected(api: httpx.Client, endpoints: str) -> None:
    place = api.get(endpoints, params={"limit": 2, "sort": "name"}).json()["next"]
    refused = api.get(endpoints, params={"after": place, "sort": "-name"})
    assert (refused.status_code, refused.json()["place"]) == (422, "after")
    assert "'name'" in refused.json()["detail"]


def test_forged_cursor_is_rejected(api: httpx.Client, endpoints: str) -> None:
    for key in (
        *(None, 1, "", [], {}, ["a"], ["a", "xx"], ["a", "02005e005301", "b"], [None, "02005e005301"]),
        *(["\0", "02005e005301"], ["\ud800", "02005e005301"], [["a"], "02005e005301"]),
    ):
        try:
            place = SortedPaging(1, "", "name").cursor(key)
        except UnicodeEncodeError:
            place = "WyJuYW1lIiwgWyJcdWQ4MDAiLCAiMDIwMDVlMDA1MzAxIl1d"
        refused = api.get(endpoints, params={"sort": "name", "after": place})
        assert (refused.status_code, refused.json()["place"]) == (422, "after")


def test_nulls_sort_last_in_both_directions(api: httpx.Client) -> None:
    addresses = ["192.0.2.10", "192.0.2.9", None, None]
    for number, address in enumerate(addresses):
        given = {"name": f"nas-{number}", "identifier": f"id-{number}"} | ({"address": address} if address else {})
        assert api.post(f"{ALPHA}/nases", json=given).status_code == 201
    for sort, wanted in (("address", addresses[1::-1]), ("-address", addresses[:2])):
        assert [each["address"] for each in walk(api, f"{ALPHA}/nases", sort=sort)] == [*wanted, None, None]


def test_members_tokens_and_policies_are_filtered(api: httpx.Client) -> None:
    for email, role in (("ann@example.com", "auditor"), ("bob@example.com", "help-desk")):
        added = api.post(f"{ALPHA}/members", json={"email": email, "role": role, "invite": False})
        assert added.status_code == 201, added.text
    found = api.get(f"{ALPHA}/members", params={"text": "ANN"}).json()["items"]
    assert [each["email"] for each in found] == ["ann@example.com"]
    found = api.get(f"{ALPHA}/members", params={"role": "help-desk"}).json()["items"]
    assert [each["email"] for each in found] == ["bob@example.com"]
    found = walk(api, f"{ALPHA}/members", sort="-email", limit=1)
    assert [each["email"] for each in found] == ["bob@example.com", "ann@example.com"]
    for name in ("monitoring", "backup"):
        made = {"name": name, "permissions": ["session.read"]}
        made["expires_at"] = api.get("/v1/msps/acme/tokens").json()["items"][0]["expires_at"]
        assert api.post(f"{ALPHA}/tokens", json=made).status_code == 201
    [backup] = api.get(f"{ALPHA}/tokens", params={"text": "back"}).json()["items"]
    assert api.delete(f"{ALPHA}/tokens/{backup['id']}").status_code == 204
    [good] = api.get(f"{ALPHA}/tokens", params={"status": "good"}).json()["items"]
    assert good["name"] == "monitoring"
    assert [each["name"] for each in walk(api, f"{ALPHA}/tokens", sort="-name")] == ["monitoring", "backup"]
    assert api.post(f"{ALPHA}/policies", json={"slug": "lab", "name": "Laboratory"}).status_code == 201
    for asked, wanted in (({"text": "borat"}, ["lab"]), ({"published": False}, ["lab"]), ({"text": "none"}, [])):
        assert [each["slug"] for each in api.get(f"{ALPHA}/policies", params=asked).json()["items"]] == wanted


def test_jobs_are_filtered_by_known_kinds(
    api: httpx.Client, owner_engine: Engine, platform: Platform, make_token: MakeToken
) -> None:
    assert set(get_args(JobKind)) == JOB_HANDLERS.keys()
    for kind in ("bulk.run", "import.run"):
        with owner_engine.begin() as connection:
            connection.execute(insert(Job).values(msp_id=platform.msp_id, kind=kind, title=kind, asked_by="test"))
    path = "/v1/msps/acme/jobs"
    assert [each["kind"] for each in walk(api, path, sort="created_at", limit=1)] == ["bulk.run", "import.run"]
    assert [each["kind"] for each in api.get(path, params={"kind": "bulk.run"}).json()["items"]] == ["bulk.run"]
    assert api.get(path, params={"kind": "bulk"}).status_code == 422
    platform_api = {"Authorization": f"Bearer {make_token(Owner())}"}
    for text, wanted in (("ACM", ["acme"]), ("none", [])):
        found = api.get("/v1/msps", params={"text": text, "sort": "-name"}, headers=platform_api).json()["items"]
        assert [each["slug"] for each in found] == wanted
    assert [each["slug"] for each in api.get(f"{ALPHA}/sites", params={"sort": "-name"}).json()["items"]]
