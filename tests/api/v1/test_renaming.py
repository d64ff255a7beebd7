"""Renames of items, and uses that block a rename."""

from typing import Any

import httpx
import pytest
from sqlalchemy import Engine
from sqlalchemy.orm import Session

from nac.models import AuditEntry
from tests.api.v1.responses import created, refusal

ALPHA, ACME = "/v1/tenants/alpha", "/v1/msps/acme"
_GROUPS = {"endpoint": "endpoint.group", "user": "user.group"}


def document(attribute: str, value: str) -> dict[str, Any]:
    when = {"attribute": attribute, "operator": "equals", "value": value}
    rule = {"id": "one", "name": "One", "when": when, "then": {"verdict": "permit"}}
    return {"rules": [rule], "fallback": {"verdict": "deny"}}


def name_in_a_policy(api: httpx.Client, attribute: str, value: str) -> None:
    created(api.post(f"{ALPHA}/policies", json={"slug": "office"}))
    saved = api.put(f"{ALPHA}/policies/office/draft", json=document(attribute, value))
    assert saved.status_code == 200, saved.text


def audited_change(owner_engine: Engine, action: str) -> tuple[object, object]:
    with Session(owner_engine) as session:
        [entry] = session.query(AuditEntry).filter(AuditEntry.action == action)
        return entry.before, entry.after


_POOL, _PROFILE = f"{ALPHA}/pools/devices", f"{ALPHA}/certificate-profiles/eap-client-device"
_MAC, _STORED = "00:00:5e:00:53:01", "00005e005301"


@pytest.mark.parametrize(
    ("method", "path", "action", "changes"),
    [
        (
            "PATCH",
            _POOL,
            "pool.set",
            [
                ({"stock": 5}, {"stock": 1024}, {"stock": 5}),
                ({"reserved": {_MAC: "10.1.0.2"}}, {"reserved": {_STORED: ""}}, {"reserved": {_STORED: "10.1.0.2"}}),
                ({"reserved": {_MAC: None}}, {"reserved": {_STORED: "10.1.0.2"}}, {"reserved": {_STORED: ""}}),
            ],
        ),
        (
            "PUT",
            _PROFILE,
            "certificate-settings.set",
            [
                ({"validity_days": 30}, {"validity_days": None}, {"validity_days": 30}),
                ({"validity_days": 30, "key": "rsa-2048"}, {"key": None}, {"key": "rsa-2048"}),
                ({}, {"key": "rsa-2048", "validity_days": 30}, {"key": None, "validity_days": None}),
            ],
        ),
        (
            "PUT",
            f"{ALPHA}/authorities/key-store",
            "certificate-settings.set",
            [({"store": "sealed"}, {"key_store": ""}, {"key_store": "sealed"})],
        ),
    ],
)
def test_audit_log_shows_only_changed_values(api, owner_engine, method, path, action, changes) -> None:
    if path == _POOL:
        created(api.post(f"{ALPHA}/pools", json={"name": "devices", "ranges": ["10.1.0.0/29"]}))
    for change, _, _ in changes:
        for _ in ("done", "already done"):
            changed = api.request(method, path, json=change)
            assert changed.status_code == 200, changed.text
    with Session(owner_engine) as session:
        found = session.query(AuditEntry).filter(AuditEntry.action == action).order_by(AuditEntry.id)
        assert [(entry.before, entry.after) for entry in found] == [each[1:] for each in changes]


@pytest.mark.parametrize(
    ("path", "made", "action"),
    [
        (f"{ALPHA}/policies", {"slug": "office", "name": "Office"}, "policy.rename"),
        (f"{ACME}/templates", {"slug": "office", "name": "Office"}, "template.rename"),
    ],
)
def test_display_name_of_a_slugged_item_is_changed(
    api: httpx.Client, owner_engine: Engine, path: str, made: dict[str, str], action: str
) -> None:
    created(api.post(path, json=made))
    changed = api.patch(f"{path}/office", json={"name": "Offices"})
    assert changed.json() == api.get(f"{path}/office").json()
    assert (changed.json()["slug"], changed.json()["name"]) == ("office", "Offices")
    assert audited_change(owner_engine, action) == ({"name": "Office"}, {"name": "Offices"})
    assert api.patch(f"{path}/office", json={"name": ""}).json()["name"] == "office"
    assert api.patch(f"{path}/office", json={"name": "\x07"}).status_code == 422
    assert api.patch(f"{path}/nothing", json={"name": "x"}).status_code == 404


@pytest.mark.parametrize("noun", _GROUPS)
def test_group_is_renamed_while_no_policy_names_it(api: httpx.Client, owner_engine: Engine, noun: str) -> None:
    path = f"{ALPHA}/{noun}-groups"
    staff, other = (api.post(path, json={"name": name}).json() for name in ("staff", "other"))
    group = f"{path}/{staff['id']}"
    renamed = api.patch(group, json={"name": "teachers"})
    assert renamed.status_code == 200, renamed.text
    assert renamed.json() == staff | {"name": "teachers"} == api.get(group).json()
    assert audited_change(owner_engine, f"{noun}-group.rename") == ({"name": "staff"}, {"name": "teachers"})
    taken = api.patch(group, json={"name": "other"})
    assert (taken.status_code, taken.json()["code"], taken.json()["place"]) == (409, "already-exists", "name")
    name_in_a_policy(api, _GROUPS[noun], "teachers")
    refused = api.patch(group, json={"name": "pupils"})
    assert refusal(refused) == (409, "in-use")
    assert "office version 1 (draft)" in refused.json()["detail"]
    assert api.get(group).json()["name"] == "teachers"
    assert api.patch(group, json={"name": "teachers"}).status_code == 200
    assert api.patch(f"{path}/{other['id']}", json={"name": "pupils"}).status_code == 200


def test_group_rename_is_blocked_by_prefix_conditions(api: httpx.Client) -> None:
    path = f"{ALPHA}/endpoint-groups"
    group = f"{path}/{api.post(path, json={'name': 'floor-1'}).json()['id']}"
    created(api.post(f"{ALPHA}/policies", json={"slug": "office"}))
    written = document("endpoint.group", "floor-")
    written["rules"][0]["when"]["operator"] = "starts_with"
    assert api.put(f"{ALPHA}/policies/office/draft", json=written).status_code == 200
    assert api.patch(group, json={"name": "floor-2"}).status_code == 200
    refused = api.patch(group, json={"name": "cellar"})
    assert refusal(refused) == (409, "in-use")
    assert "office version 1 (draft)" in refused.json()["detail"]


_WEBHOOK = {"kind": "webhook", "name": "old", "settings": {"url": "https://siem.example/admit"}}


@pytest.mark.parametrize(
    ("path", "made", "action"),
    [
        (f"{ALPHA}/feeds", _WEBHOOK, "feed.rename"),
        (f"{ALPHA}/pools", {"name": "old", "ranges": ["10.1.0.0/29"]}, "pool.rename"),
    ],
)
def test_items_identified_by_name_are_renamed(
    api: httpx.Client, owner_engine: Engine, path: str, made: dict[str, Any], action: str
) -> None:
    created(api.post(path, json=made))
    renamed = api.patch(f"{path}/old", json={"name": "new"})
    assert renamed.json()["name"] == "new"
    assert api.get(f"{path}/new").json() == renamed.json()
    assert api.get(f"{path}/old").status_code == 404
    assert audited_change(owner_engine, action)
    assert api.patch(f"{path}/new", json={"name": "new"}).status_code == 200
    more = {"ranges": ["10.2.0.0/29"]} if "ranges" in made else {}
    created(api.post(path, json=made | more))
    taken = api.patch(f"{path}/old", json={"name": "new"})
    assert (taken.status_code, taken.json()["place"]) == (409, "name")
    for wrong in ("", "New", "a b"):
        assert api.patch(f"{path}/old", json={"name": wrong}).status_code == 422


def test_pools_named_by_a_policy_keep_their_names(api: httpx.Client) -> None:
    created(api.post(f"{ALPHA}/sites", json={"slug": "branch"}))
    for number, (name, site) in enumerate((("devices", None), ("devices", "branch"), ("others", "branch"))):
        created(api.post(f"{ALPHA}/pools", json={"name": name, "ranges": [f"10.{number}.0.0/29"], "site": site}))
    created(api.post(f"{ALPHA}/policies", json={"slug": "office"}))
    written = document("endpoint.name", "x")
    written["rules"][0]["then"]["ip_pool"] = "devices"
    assert api.put(f"{ALPHA}/policies/office/draft", json=written).status_code == 200
    # The pool of the site keeps its name too. Otherwise the tenant's pool would replace it.
    for query in ("", "?site=branch"):
        refused = api.patch(f"{ALPHA}/pools/devices{query}", json={"name": "free"})
        assert refusal(refused) == (409, "in-use"), refused.text
    # A pool of the site with this name would replace the tenant's pool in the policy.
    assert api.delete(f"{ALPHA}/pools/devices?site=branch").status_code == 204
    refused = api.patch(f"{ALPHA}/pools/others?site=branch", json={"name": "devices"})
    assert refusal(refused) == (409, "in-use"), refused.text
    assert api.patch(f"{ALPHA}/pools/others?site=branch", json={"name": "free"}).status_code == 200


def test_nas_named_by_a_policy_is_renamed_only_with_a_twin(api: httpx.Client) -> None:
    path = f"{ALPHA}/nases"
    created(api.post(path, json={"name": "core", "identifier": "sw-1"}))
    name_in_a_policy(api, "nas.name", "core")
    refused = api.patch(f"{path}/sw-1", json={"name": "edge"})
    assert (refused.status_code, refused.json()["code"], refused.json()["place"]) == (409, "in-use", "name")
    many = {"operation": "put", "existing": "update", "items": [{"name": "edge", "identifier": "sw-1"}]}
    refused = api.post(f"{path}/bulk", json=many)
    assert (refused.status_code, "Policies refer to" in refused.text) == (422, True), refused.text
    created(api.post(path, json={"name": "core", "identifier": "sw-2"}))
    both = many | {"items": [{"name": f"edge-{each}", "identifier": f"sw-{each}"} for each in (1, 2)]}
    assert api.post(f"{path}/bulk", json=both).status_code == 422
    assert api.patch(f"{path}/sw-1", json={"name": "edge"}).json()["name"] == "edge"


def test_renaming_a_group_keeps_its_rule(api: httpx.Client) -> None:
    rule = {"attribute": "endpoint.vendor", "operator": "equals", "value": "HP"}
    made = api.post(f"{ALPHA}/endpoint-groups", json={"name": "printers", "rule": rule}).json()
    renamed = api.patch(f"{ALPHA}/endpoint-groups/{made['id']}", json={"name": "machines"}).json()
    assert renamed == made | {"name": "machines"}
    both = api.patch(f"{ALPHA}/endpoint-groups/{made['id']}", json={"name": "printers", "rule": None}).json()
    assert (both["name"], both["rule"]) == ("printers", None)


def test_site_named_by_a_policy_is_renamed_only_with_a_twin(api: httpx.Client) -> None:
    created(api.post(f"{ALPHA}/sites", json={"slug": "north", "name": "Branch"}))
    name_in_a_policy(api, "site.name", "Branch")
    refused = api.patch(f"{ALPHA}/sites/north", json={"name": "Northern"})
    assert (refused.status_code, refused.json()["code"], refused.json()["place"]) == (409, "in-use", "name")
    created(api.post(f"{ALPHA}/sites", json={"slug": "south", "name": "Branch"}))
    assert api.patch(f"{ALPHA}/sites/north", json={"name": "Northern"}).json()["name"] == "Northern"
