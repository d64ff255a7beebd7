"""Devices through the API."""

import httpx
from sqlalchemy import Engine, text

ENDPOINTS = "/v1/tenants/alpha/endpoints"
PRINTER = "00:00:5e:00:53:01"


def add(api: httpx.Client, mac: str, **given: object) -> httpx.Response:
    return api.post(ENDPOINTS, json={"mac": mac} | given)


def test_device_is_created_read_updated_and_deleted(api: httpx.Client) -> None:
    made = add(api, "0000.5E00.5301", name="Printer", owner="Ann", attributes={"room": "12"})
    assert made.status_code == 201, made.text
    assert made.json()["mac"] == PRINTER
    assert made.headers["admit-live"] == "false"
    assert int(made.headers["admit-position"]) > 0
    changed = api.patch(f"{ENDPOINTS}/{PRINTER}", json={"notes": "2nd floor", "attributes": {"room": None}})
    assert changed.status_code == 200
    read = api.get(f"{ENDPOINTS}/00005E005301").json()
    assert read == changed.json()
    assert {name: read[name] for name in ("name", "owner", "notes", "attributes", "status", "valid_until")} == {
        "name": "Printer",
        "owner": "Ann",
        "notes": "2nd floor",
        "attributes": {},
        "status": "active",
        "valid_until": None,
    }
    assert api.post(f"{ENDPOINTS}/{PRINTER}/block").json()["status"] == "blocked"
    assert api.post(f"{ENDPOINTS}/{PRINTER}/unblock").json()["status"] == "active"
    gone = api.delete(f"{ENDPOINTS}/{PRINTER}")
    assert (gone.status_code, gone.content) == (204, b"")
    missing = api.get(f"{ENDPOINTS}/{PRINTER}")
    assert (missing.status_code, missing.json()["code"]) == (404, "endpoint-not-found")
    assert missing.headers["content-type"] == "application/problem+json"


def test_next_page_starts_after_the_previous_one(api: httpx.Client) -> None:
    macs = [f"00:00:5e:00:53:{number:02x}" for number in range(1, 8)]
    for mac in macs:
        assert add(api, mac).status_code == 201
    seen, after, pages = [], "", 0
    while after is not None:
        page = api.get(ENDPOINTS, params={"limit": 3, "after": after}).json()
        seen += [each["mac"] for each in page["items"]]
        after, pages = page["next"], pages + 1
    assert (seen, pages) == (macs, 3)
    # The page has the last row, and no cursor.
    assert api.get(ENDPOINTS, params={"limit": 7}).json()["next"] is None
    assert api.get(ENDPOINTS, params={"status": "blocked"}).json()["items"] == []


def test_invalid_fields_are_listed_and_change_nothing(api: httpx.Client) -> None:
    for body, status, place in (
        ({}, 422, "mac"),
        ({"mac": "xyz"}, 422, "mac"),
        ({"mac": PRINTER, "colour": "red"}, 422, "colour"),
        ({"mac": PRINTER, "name": "x" * 201}, 422, "name"),
        ({"mac": PRINTER, "valid_until": "2020-01-01T00:00:00Z"}, 422, "valid_until"),
        ({"mac": PRINTER, "valid_until": "2040-01-01T00:00:00"}, 422, "valid_until"),
        ({"mac": PRINTER, "groups": ["unheard-of"]}, 422, ""),
        ({"mac": "02:00:00:00:00:01"}, 422, "mac"),
        ([], 422, ""),
    ):
        answer = api.post(ENDPOINTS, json=body)
        assert answer.status_code == status, answer.text
        told = answer.json()
        places = [each.get("place", "") for each in told.get("mistakes", [])] or [told.get("place", "")]
        assert not place or place in places, told
        assert api.get(ENDPOINTS).json()["items"] == []


def test_invalid_cursor_is_rejected(api: httpx.Client) -> None:
    for after in ("x", "bnVsbA", "W10", "IiI", "e30", "é", "IjEyIg"):
        answer = api.get(ENDPOINTS, params={"after": after})
        assert answer.status_code == 422, answer.text
        assert answer.json()["place"] == "after"


def test_non_text_attributes_are_shown_as_policies_see_them(api: httpx.Client, owner_engine: Engine) -> None:
    add(api, PRINTER)
    with owner_engine.begin() as connection:
        connection.execute(text("UPDATE endpoints SET attributes = jsonb_build_object('floor', 3, 'x', '[1]'::jsonb)"))
    assert api.get(ENDPOINTS).json()["items"][0]["attributes"] == {"floor": "3", "x": "[1]"}
    assert "3,[1]" in api.get(f"{ENDPOINTS}.csv").text
