"""Sites through the API."""

import httpx

SITES = "/v1/tenants/alpha/sites"


def test_site_lifecycle_includes_becoming_the_default(api: httpx.Client) -> None:
    made = api.post(SITES, json={"slug": "north", "time_zone": "Europe/Berlin"})
    assert made.status_code == 201, made.text
    assert [each["slug"] for each in api.get(SITES).json()["items"]] == ["main", "north"]
    assert made.json() | {"id": ""} == {
        "id": "",
        "slug": "north",
        "name": "north",
        "time_zone": "Europe/Berlin",
        "policy": None,
        "default": False,
        "monitor": False,
        "fallback": None,
    }
    fallback = {"verdict": "permit", "vlan": "7"}
    changed = api.patch(f"{SITES}/north", json={"monitor": True, "fallback": fallback, "default": True})
    assert changed.status_code == 200, changed.text
    assert changed.json() == api.get(f"{SITES}/north").json()
    assert [each["slug"] for each in api.get(SITES).json()["items"] if each["default"]] == ["north"]
    assert api.patch(f"{SITES}/north", json={"name": "Northern"}).json()["name"] == "Northern"
    assert api.patch(f"{SITES}/north", json={"name": ""}).json()["name"] == "north"
    assert api.patch(f"{SITES}/north", json={"fallback": None}).json()["fallback"] is None
    assert api.patch(f"{SITES}/north", json={"monitor": True}).status_code == 200
    told = api.get("/v1/tenants/alpha/audit", params={"action": "site.set"}).json()["items"]
    assert len(told) == 4
    assert all(each["differences"] for each in told)
    in_use = api.delete(f"{SITES}/north").json()
    assert (in_use["code"], "is the default site" in in_use["detail"]) == ("in-use", True)
    api.patch(f"{SITES}/main", json={"default": True})
    assert api.delete(f"{SITES}/north").status_code == 204
    assert api.get(f"{SITES}/north").json()["code"] == "site-not-found"


def test_invalid_site_changes_nothing(api: httpx.Client) -> None:
    for body in (
        {"time_zone": "Mars/Olympus"},
        {"fallback": {"verdict": "perhaps"}},
        {"policy": "unheard-of"},
        {"monitor": "perhaps"},
        {"colour": "red"},
    ):
        before = api.get(f"{SITES}/main").json()
        answer = api.patch(f"{SITES}/main", json={"monitor": True} | body)
        assert answer.status_code in (404, 422), answer.text
        assert api.get(f"{SITES}/main").json() == before
