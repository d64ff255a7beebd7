"""NASes in the API: switches, access points and controllers."""

import httpx
import pytest
from sqlalchemy import Engine, text

NASES = "/v1/tenants/alpha/nases"
SECRET = "a-secret-of-its-own-1"


def add(api: httpx.Client, name: str, **given: object) -> dict[str, object]:
    answer = api.post(NASES, json={"name": name} | given)
    assert answer.status_code == 201, answer.text
    made: dict[str, object] = answer.json()
    return made


def test_nas_lifecycle_never_shows_its_secret(api: httpx.Client) -> None:
    made = add(api, "North", identifier="sw-1", address="192.0.2.7", vendor="Cisco", secret=SECRET)
    address = f"{NASES}/{made['id']}"
    assert (made["own_secret"], made["site"], made["address"]) == (True, "main", "192.0.2.7")
    read = api.get(address)
    assert read.json() == made
    matching = {"If-Match": read.headers["etag"]}
    changed = api.patch(address, json={"secret": None, "identifier": None, "behind_nat": True}, headers=matching)
    assert changed.status_code == 200, changed.text
    assert changed.json() == made | {"own_secret": False, "identifier": None, "behind_nat": True}
    assert api.patch(address, json={"name": "South"}, headers=matching).status_code == 412
    for answer in (read, changed, api.get(NASES), api.patch(address, json={"secret": "short"})):
        assert SECRET not in answer.text
        assert "secret" not in answer.json()
    assert api.delete(address).status_code == 204
    assert (api.get(address).status_code, api.get(address).json()["code"]) == (404, "nas-not-found")


def test_mab_settings_are_updated_and_never_show_the_text(api: httpx.Client) -> None:
    made = add(api, "North", identifier="sw-1", mab_password="fixed", mab_password_text="NOPASSWORD", mab_by_name=True)
    assert (made["mab_password"], made["mab_by_name"]) == ("fixed", True)
    assert "NOPASSWORD" not in str(made)
    address = f"{NASES}/{made['id']}"
    # The text remains stored until an update replaces it.
    assert api.patch(address, json={"mab_by_name": False, "vendor": "aruba"}).json()["mab_password"] == "fixed"
    assert api.patch(address, json={"mab_password": "fixed"}).status_code == 200
    assert api.patch(address, json={"mab_password": "empty"}).json()["mab_password"] == "empty"
    plain = add(api, "South", identifier="sw-2")
    assert (plain["mab_password"], plain["mab_by_name"]) == ("mac", False)
    entries = api.get("/v1/tenants/alpha/audit").text
    assert "mab_password" in entries
    assert "NOPASSWORD" not in entries


@pytest.mark.parametrize(
    ("given", "place"),
    [
        ({"mab_password": "fixed"}, "mab_password_text"),
        ({"mab_password": "fixed", "mab_password_text": ""}, "mab_password_text"),
        ({"mab_password": "fixed", "mab_password_text": "tab\there"}, "mab_password_text"),
        ({"mab_password": "fixed", "mab_password_text": "\u00fc" * 65}, "mab_password_text"),
        ({"mab_password": "fixed", "mab_password_text": "x" * 129}, "mab_password_text"),
        ({"mab_password": "empty", "mab_password_text": "text"}, "mab_password_text"),
        ({"mab_password_text": "text"}, "mab_password_text"),
        ({"mab_password": "mac-address"}, "mab_password"),
    ],
)
def test_invalid_mab_settings_are_rejected(api: httpx.Client, given: dict[str, str], place: str) -> None:
    answer = api.post(NASES, json={"name": "North", "identifier": "sw-1"} | given)
    problem = answer.json()
    assert (answer.status_code, (problem.get("mistakes") or [problem])[0]["place"]) == (422, place), problem
    made = add(api, "North", identifier="sw-1")
    assert api.patch(f"{NASES}/{made['id']}", json=given).status_code == 422


def test_list_is_filtered_and_paged(api: httpx.Client) -> None:
    assert api.post("/v1/tenants/alpha/sites", json={"slug": "branch"}).status_code == 201
    add(api, "South", address="192.0.2.2")
    add(api, "South", identifier="sw-3")
    add(api, "North", identifier="n", site="branch", vendor="aruba")
    for asked, found in (
        ({}, ["North", "South", "South"]),
        ({"site": "branch"}, ["North"]),
        ({"site": "nowhere"}, []),
        ({"address": "192.0.2.2"}, ["South"]),
        ({"text": "OUT"}, ["South", "South"]),
        ({"text": "SW-3"}, ["South"]),
        ({"vendor": "aruba"}, ["North"]),
    ):
        names, after = [], ""
        while after is not None:
            page = api.get(NASES, params=asked | {"limit": 1, "after": after}).json()
            names += [each["name"] for each in page["items"]]
            after = page["next"]
        assert names == found


def test_invalid_fields_are_rejected_with_their_path(api: httpx.Client) -> None:
    for body, status, place in (
        ({"name": "x", "address": "192.0.2.0/24"}, 422, "address"),
        ({"name": "x", "identifier": "i", "site": "nowhere"}, 422, "site"),
        ({"name": "x", "identifier": "i", "colour": 1}, 422, "colour"),
    ):
        answer = api.post(NASES, json=body)
        assert answer.status_code == status, answer.text
        told = answer.json()
        assert place in ([each["place"] for each in told.get("mistakes", [])] or [told.get("place")]), told
        assert api.get(NASES).json()["items"] == []


def test_vendors_are_listed_with_their_attributes(api: httpx.Client) -> None:
    items = api.get(f"{NASES}/vendors").json()["items"]
    assert any(each["sends"].get("vlan") for each in items)
    assert "default" in [each["name"] for each in items]


def test_nas_is_found_by_id_identifier_address_and_name(api: httpx.Client) -> None:
    made = add(api, "North 1", identifier="sw-1", address="2001:db8::1")
    add(api, "South", identifier="sw-2")
    add(api, "South", identifier="sw-3")
    for key in (made["id"], "sw-1", "2001:0db8:0::1", "North 1"):
        assert api.get(f"{NASES}/{key}").json() == made
    assert api.patch(f"{NASES}/sw-1", json={"behind_nat": True}).json()["behind_nat"] is True
    several = api.get(f"{NASES}/South")
    assert (several.status_code, several.json()["code"]) == (409, "conflict")
    for key in ("nothing", "0190b6c2-7c11-7d52-9a43-0c5d8f2e6b10"):
        assert api.get(f"{NASES}/{key}").json()["code"] == "nas-not-found"
    assert api.delete(f"{NASES}/North 1").status_code == 204


def test_link_local_address_matches_no_nas(api: httpx.Client) -> None:
    for ask in (api.get, api.delete):
        answer = ask(f"{NASES}/fe80::1%25eth0")
        assert (answer.status_code, answer.json()["code"]) == (404, "nas-not-found"), answer.text


def test_exempt_nas_shows_observations_until_enforced(api: httpx.Client, owner_engine: Engine) -> None:
    made = add(api, "Old", address="192.0.2.7", require_message_authenticator=False)
    address = f"{NASES}/{made['id']}"
    assert (made["signing"], made["notes"]) == (None, [])
    before = api.get(address).headers["etag"]
    with owner_engine.begin() as connection:
        connection.execute(
            text(
                "INSERT INTO nas_signatures SELECT id, tenant_id, now() - interval '1 hour', now() - interval '8 days',"
                " now() FROM nases"
            )
        )
    shown = api.get(address).json()
    assert shown["signing"]["safe_to_enforce"] is True
    assert shown["notes"][0].startswith("the NAS has sent Message-Authenticator with every request since ")
    [listed] = api.get(NASES).json()["items"]
    assert listed["signing"] == shown["signing"]
    # Values observed in the meantime do not block the change.
    enforced = api.patch(address, json={"require_message_authenticator": True}, headers={"If-Match": before})
    assert enforced.status_code == 200, enforced.text
    assert enforced.json()["signing"] is None
    assert enforced.json()["notes"][0].startswith("the NAS sent a request without Message-Authenticator at ")
    again = api.patch(address, json={"require_message_authenticator": False}).json()
    assert (again["signing"], again["notes"]) == (None, [])


@pytest.mark.parametrize(
    ("signs_since", "last_signed_at"), [("6 days 23 hours", "0 hours"), ("8 days", "2 days"), (None, None)]
)
def test_exempt_nas_without_a_signed_week_is_unsafe_to_enforce(
    api: httpx.Client, owner_engine: Engine, signs_since: str | None, last_signed_at: str | None
) -> None:
    made = add(api, "Old", address="192.0.2.7", require_message_authenticator=False)
    with owner_engine.begin() as connection:
        connection.execute(
            text(
                "INSERT INTO nas_signatures SELECT id, tenant_id, now() - interval '9 days',"
                " now() - CAST(:since AS interval), now() - CAST(:last AS interval) FROM nases"
            ),
            {"since": signs_since, "last": last_signed_at},
        )
    shown = api.get(f"{NASES}/{made['id']}").json()
    assert shown["signing"]["safe_to_enforce"] is False
    assert shown["notes"] == []
