"""NASes and sites."""

import httpx
import pytest
from sqlalchemy import Engine, text

from tests.api.v1.responses import created, error_paths, refusal

SITES = "/v1/tenants/alpha/sites"
NASES = "/v1/tenants/alpha/nases"
SECRET = "a-secret-of-its-own-1"


def add(api: httpx.Client, name: str, **given: object) -> dict[str, object]:
    return created(api.post(NASES, json={"name": name} | given))


def test_nas_lifecycle_never_shows_its_secret(api: httpx.Client) -> None:
    made = add(api, "North", identifier="sw-1", address="192.0.2.7", vendor="Cisco", secret=SECRET)
    address = f"{NASES}/{made['id']}"
    assert (made["own_secret"], made["site"], made["address"]) == (True, "main", "192.0.2.7")
    read = api.get(address)
    assert read.json() == made
    changed = api.patch(address, json={"secret": None, "identifier": None, "behind_nat": True})
    assert changed.json() == made | {"own_secret": False, "identifier": None, "behind_nat": True}
    for answer in (read, changed, api.get(NASES), api.patch(address, json={"secret": "short"})):
        assert SECRET not in answer.text
        assert "secret" not in answer.json()
    assert api.delete(address).status_code == 204
    assert refusal(api.get(address)) == (404, "nas-not-found")


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
    assert ("mab_password" in entries, "NOPASSWORD" in entries) == (True, False)


def test_invalid_mab_settings_are_rejected(api: httpx.Client) -> None:
    plain = add(api, "South", identifier="sw-2")
    for given, place in (
        ({"mab_password": "fixed"}, "mab_password_text"),
        ({"mab_password": "fixed", "mab_password_text": ""}, "mab_password_text"),
        ({"mab_password": "fixed", "mab_password_text": "tab\there"}, "mab_password_text"),
        ({"mab_password": "fixed", "mab_password_text": "\u00fc" * 65}, "mab_password_text"),
        ({"mab_password": "fixed", "mab_password_text": "x" * 129}, "mab_password_text"),
        ({"mab_password": "empty", "mab_password_text": "text"}, "mab_password_text"),
        ({"mab_password_text": "text"}, "mab_password_text"),
        ({"mab_password": "mac-address"}, "mab_password"),
    ):
        for answer in (
            api.post(NASES, json={"name": "North", "identifier": "sw-1"} | given),
            api.patch(f"{NASES}/{plain['id']}", json=given),
        ):
            assert (answer.status_code, error_paths(answer)[0]) == (422, place), answer.text


def test_vendors_are_listed_with_their_attributes(api: httpx.Client) -> None:
    items = api.get(f"{NASES}/vendors").json()["items"]
    assert any(each["sends"].get("vlan") for each in items)
    assert "default" in [each["name"] for each in items]


def test_nas_is_found_by_id_identifier_address_and_name(api: httpx.Client) -> None:
    made = add(api, "North 1", identifier="sw-1", address="2001:db8::1")
    for identifier in ("sw-2", "sw-3"):
        add(api, "South", identifier=identifier)
    for key in (made["id"], "sw-1", "2001:0db8:0::1", "North 1"):
        assert api.get(f"{NASES}/{key}").json() == made
    assert api.patch(f"{NASES}/sw-1", json={"behind_nat": True}).json()["behind_nat"] is True
    assert refusal(api.get(f"{NASES}/South")) == (409, "conflict")
    for key in ("nothing", "0190b6c2-7c11-7d52-9a43-0c5d8f2e6b10", "fe80::1%25eth0"):
        for ask in (api.get, api.delete):
            assert refusal(ask(f"{NASES}/{key}")) == (404, "nas-not-found")
    assert api.delete(f"{NASES}/North 1").status_code == 204


_SIGNATURES = text(
    "INSERT INTO nas_signatures SELECT id, tenant_id, now() - CAST(:unsigned AS interval),"
    " now() - CAST(:since AS interval), now() - CAST(:last AS interval) FROM nases"
)


def test_exempt_nas_shows_observations_until_enforced(api: httpx.Client, owner_engine: Engine) -> None:
    made = add(api, "Old", address="192.0.2.7", require_message_authenticator=False)
    address = f"{NASES}/{made['id']}"
    assert (made["signing"], made["notes"]) == (None, [])
    before = api.get(address).headers["etag"]
    with owner_engine.begin() as connection:
        connection.execute(_SIGNATURES, {"unsigned": "1 hour", "since": "8 days", "last": "0"})
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


@pytest.mark.parametrize(("since", "last"), [("6 days 23 hours", "0 hours"), ("8 days", "2 days"), (None, None)])
def test_exempt_nas_without_a_signed_week_is_unsafe_to_enforce(
    api: httpx.Client, owner_engine: Engine, since: str | None, last: str | None
) -> None:
    made = add(api, "Old", address="192.0.2.7", require_message_authenticator=False)
    with owner_engine.begin() as connection:
        connection.execute(_SIGNATURES, {"unsigned": "9 days", "since": since, "last": last})
    shown = api.get(f"{NASES}/{made['id']}").json()
    assert (shown["signing"]["safe_to_enforce"], shown["notes"]) == (False, [])


def test_site_lifecycle_includes_becoming_the_default(api: httpx.Client) -> None:
    made = created(api.post(SITES, json={"slug": "north", "time_zone": "Europe/Berlin"}))
    assert [each["slug"] for each in api.get(SITES).json()["items"]] == ["main", "north"]
    named = {"slug": "north", "name": "north", "time_zone": "Europe/Berlin"}
    assert made == {"id": made["id"], "policy": None, "default": False, "monitor": False, "fallback": None, **named}
    fallback = {"verdict": "permit", "vlan": "7"}
    changed = api.patch(f"{SITES}/north", json={"monitor": True, "fallback": fallback, "default": True})
    assert changed.json() == api.get(f"{SITES}/north").json()
    assert [each["slug"] for each in api.get(SITES).json()["items"] if each["default"]] == ["north"]
    for change, shown in (({"name": "Northern"}, "Northern"), ({"name": ""}, "north"), ({"fallback": None}, None)):
        (field,) = change
        assert api.patch(f"{SITES}/north", json=change).json()[field] == shown
    assert api.patch(f"{SITES}/north", json={"monitor": True}).status_code == 200
    told = api.get("/v1/tenants/alpha/audit", params={"action": "site.set"}).json()["items"]
    assert (len(told), all(each["differences"] for each in told)) == (4, True)
    in_use = api.delete(f"{SITES}/north").json()
    assert (in_use["code"], "is the default site" in in_use["detail"]) == ("in-use", True)
    api.patch(f"{SITES}/main", json={"default": True})
    assert api.delete(f"{SITES}/north").status_code == 204
    assert api.get(f"{SITES}/north").json()["code"] == "site-not-found"
