"""Address pools."""

import httpx

from tests.api.v1.responses import created

POOLS = "/v1/tenants/alpha/pools"


def test_pool_is_created_updated_and_deleted(api: httpx.Client) -> None:
    made = created(api.post(POOLS, json={"name": "devices", "ranges": ["10.1.0.0/29"], "stock": 2}))
    wanted = {"size": 6, "free": 6, "stock": 2, "site": None, "attribute": "Framed-IP-Address", "cells": {}}
    assert made.items() >= wanted.items()
    address = f"{POOLS}/devices"
    assert api.get(address).json() == made
    change = {"exclusions": ["10.1.0.1"], "reserved": {"00:00:5e:00:53:01": "10.1.0.2"}, "when_empty": "without"}
    changed = api.patch(address, json=change).json()
    assert (changed["size"], changed["reserved"], changed["when_empty"]) == (5, 1, "without")
    assert api.get(f"{POOLS}/leases", params={"pool": "devices"}).json() == {"items": [], "next": None}
    assert api.post(f"{POOLS}/release", json={"address": "10.1.0.3"}).json()["code"] == "pool-not-found"
    assert api.patch(address, json={"reserved": {"00:00:5e:00:53:01": None}}).json()["reserved"] == 0
    assert api.delete(address).status_code == 204
    assert api.get(address).json()["code"] == "pool-not-found"


def test_pool_of_a_site_is_separate(api: httpx.Client) -> None:
    created(api.post(POOLS, json={"name": "devices", "ranges": ["10.1.0.0/29"]}))
    created(api.post(POOLS, json={"name": "devices", "ranges": ["10.2.0.0/29"], "site": "main"}))
    assert api.get(f"{POOLS}/devices", params={"site": "main"}).json()["ranges"] == ["10.2.0.0/29"]
    assert api.delete(f"{POOLS}/devices", params={"site": "main"}).status_code == 204
    assert api.get(f"{POOLS}/devices").json()["ranges"] == ["10.1.0.0/29"]
