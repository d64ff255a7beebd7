"""Address pools through the API."""

import base64
import json

import httpx

POOLS = "/v1/tenants/alpha/pools"


def test_pool_is_created_updated_and_deleted(api: httpx.Client) -> None:
    made = api.post(POOLS, json={"name": "devices", "ranges": ["10.1.0.0/29"], "stock": 2})
    assert made.status_code == 201, made.text
    assert {name: made.json()[name] for name in ("size", "free", "stock", "site", "attribute", "cells")} == {
        "size": 6,
        "free": 6,
        "stock": 2,
        "site": None,
        "attribute": "Framed-IP-Address",
        "cells": {},
    }
    address = f"{POOLS}/devices"
    read = api.get(address)
    assert read.json() == made.json()
    change = {"exclusions": ["10.1.0.1"], "reserved": {"00:00:5e:00:53:01": "10.1.0.2"}, "when_empty": "without"}
    changed = api.patch(address, json=change, headers={"If-Match": read.headers["etag"]})
    assert changed.status_code == 200, changed.text
    assert (changed.json()["size"], changed.json()["reserved"], changed.json()["when_empty"]) == (5, 1, "without")
    assert api.patch(address, json={"stock": 3}, headers={"If-Match": read.headers["etag"]}).status_code == 412
    assert [each["name"] for each in api.get(POOLS).json()["items"]] == ["devices"]
    assert api.get(f"{POOLS}/leases", params={"pool": "devices"}).json() == {"items": [], "next": None}
    assert api.post(f"{POOLS}/release", json={"address": "10.1.0.3"}).json()["code"] == "pool-not-found"
    assert api.patch(address, json={"reserved": {"00:00:5e:00:53:01": None}}).json()["reserved"] == 0
    assert api.delete(address).status_code == 204
    assert api.get(address).json()["code"] == "pool-not-found"


def test_pool_of_a_site_is_separate(api: httpx.Client) -> None:
    assert api.post(POOLS, json={"name": "devices", "ranges": ["10.1.0.0/29"]}).status_code == 201
    own = api.post(POOLS, json={"name": "devices", "ranges": ["10.2.0.0/29"], "site": "main"})
    assert own.status_code == 201, own.text
    assert api.get(f"{POOLS}/devices", params={"site": "main"}).json()["ranges"] == ["10.2.0.0/29"]
    assert api.delete(f"{POOLS}/devices", params={"site": "main"}).status_code == 204
    assert api.get(f"{POOLS}/devices").json()["ranges"] == ["10.1.0.0/29"]


def test_invalid_fields_are_rejected_with_their_path(api: httpx.Client) -> None:
    for body, place in (
        ({"name": "x", "ranges": []}, "ranges"),
        ({"name": "x", "ranges": ["10.0.0.0/8"]}, "ranges"),
        ({"name": "x", "ranges": ["10.1.0.0/29"], "kind": "ipv6"}, "ranges"),
        ({"name": "leases", "ranges": ["10.1.0.0/29"]}, "name"),
        ({"name": "X Y", "ranges": ["10.1.0.0/29"]}, "name"),
        ({"name": "x", "ranges": ["10.1.0.0/29"], "stock": 0}, "stock"),
    ):
        answer = api.post(POOLS, json=body)
        assert answer.status_code == 422, answer.text
        told = answer.json()
        assert place in ([each["place"] for each in told.get("mistakes", [])] or [told.get("place")]), told


def test_invalid_lease_cursor_is_rejected(api: httpx.Client) -> None:
    for key in ("x", "00000000-0000-0000-0000-000000000001 -1", "00000000-0000-0000-0000-000000000001"):
        after = base64.urlsafe_b64encode(json.dumps(key).encode()).decode().rstrip("=")
        assert api.get(f"{POOLS}/leases", params={"after": after}).json()["place"] == "after"
