"""Devices, the inbox of new devices, the findings of a device, users, and groups."""

import httpx
import pytest
from sqlalchemy import Engine, text

from nac.kit.clock import utc_now
from nac.kit.db import TenantScope, session_scope
from nac.kit.ids import TenantId
from nac.models import Endpoint, EndpointEvidence, EndpointSighting
from tests.api.v1.responses import created, refusal

TENANT = "/v1/tenants/alpha"
ENDPOINTS = f"{TENANT}/endpoints"
USERS, GROUPS = f"{TENANT}/users", f"{TENANT}/user-groups"
PASSWORD = "correct horse"
PRINTER = "00:00:5e:00:53:01"
LASTING, RANDOM, KNOWN = "00005e005301", "02005e005302", "00005e005303"


def test_device_is_created_read_updated_and_deleted(api: httpx.Client) -> None:
    body = {"mac": "0000.5E00.5301", "name": "Printer", "owner": "Ann", "attributes": {"room": "12"}}
    made = api.post(ENDPOINTS, json=body)
    assert created(made)["mac"] == PRINTER
    assert (made.headers["admit-live"], int(made.headers["admit-position"]) > 0) == ("false", True)
    changed = api.patch(f"{ENDPOINTS}/{PRINTER}", json={"notes": "2nd floor", "attributes": {"room": None}})
    read = api.get(f"{ENDPOINTS}/00005E005301").json()
    assert read == changed.json()
    wanted = {"name": "Printer", "owner": "Ann", "notes": "2nd floor", "attributes": {}, "status": "active"}
    assert read.items() >= (wanted | {"valid_until": None}).items()
    assert api.post(f"{ENDPOINTS}/{PRINTER}/block").json()["status"] == "blocked"
    assert api.post(f"{ENDPOINTS}/{PRINTER}/unblock").json()["status"] == "active"
    gone = api.delete(f"{ENDPOINTS}/{PRINTER}")
    assert (gone.status_code, gone.content) == (204, b"")
    missing = api.get(f"{ENDPOINTS}/{PRINTER}")
    assert refusal(missing) == (404, "endpoint-not-found")
    assert missing.headers["content-type"] == "application/problem+json"


def test_non_text_attributes_are_shown_as_policies_see_them(api: httpx.Client, owner_engine: Engine) -> None:
    created(api.post(ENDPOINTS, json={"mac": PRINTER}))
    with owner_engine.begin() as connection:
        connection.execute(text("UPDATE endpoints SET attributes = jsonb_build_object('floor', 3, 'x', '[1]'::jsonb)"))
    assert api.get(ENDPOINTS).json()["items"][0]["attributes"] == {"floor": "3", "x": "[1]"}
    assert "3,[1]" in api.get(f"{ENDPOINTS}.csv").text


@pytest.fixture
def discovered(app_engine: Engine, owner_engine: Engine, tenant_id: TenantId) -> None:
    now = utc_now()
    new = {"tenant_id": tenant_id, "status": "discovered", "first_seen_at": now}
    with session_scope(TenantScope(tenant_id), engine=app_engine) as session:
        session.add(Endpoint(**new, mac=LASTING, vendor="Axis"))
        session.add(Endpoint(**new, mac=RANDOM))
        session.add(Endpoint(tenant_id=tenant_id, mac=KNOWN, name="Printer"))
    with owner_engine.begin() as connection:
        for mac in (LASTING, KNOWN):
            seen = {"tenant_id": tenant_id, "mac": mac, "last_seen_at": now, "nas_port": "Gi1/0/7", "times": 3}
            connection.execute(EndpointSighting.__table__.insert(), seen)
        told = {"tenant_id": tenant_id, "mac": KNOWN, "source": "dhcp", "key": "hostname", "value": "printer"}
        connection.execute(EndpointEvidence.__table__.insert(), told | {"at": now})


@pytest.mark.usefixtures("discovered")
def test_inbox_is_filtered_and_classified_as_a_whole(api: httpx.Client) -> None:
    items = api.get(f"{ENDPOINTS}/inbox").json()["items"]
    assert [(each["mac"], each["random"]) for each in items] == [(PRINTER, False), ("02:00:5e:00:53:02", True)]
    assert (items[0]["port"], items[0]["times"], items[0]["vendor"]) == ("Gi1/0/7", 3, "Axis")
    for asked, found in (({"vendor": "axis"}, items[:1]), ({"random": "true"}, items[1:])):
        assert api.get(f"{ENDPOINTS}/inbox", params=asked).json()["items"] == found
    for body in (
        {"action": "approve"},
        {"action": "approve", "macs": [LASTING, RANDOM]},
        {"action": "approve", "macs": [LASTING, KNOWN]},
        {"action": "burn", "macs": [LASTING]},
    ):
        assert api.post(f"{ENDPOINTS}/classify", json=body).status_code == 422
    tried = api.post(f"{ENDPOINTS}/classify", json={"action": "block", "vendor": "Axis", "dry_run": True}).json()
    assert (tried["count"], tried["items"][0]["mac"]) == (1, PRINTER)
    assert api.get(f"{ENDPOINTS}/inbox").json()["items"] == items
    both = {"action": "approve", "macs": [LASTING, RANDOM], "allow_random": True}
    done = api.post(f"{ENDPOINTS}/classify", json=both)
    assert (done.status_code, done.json()["count"]) == (200, 2)
    assert api.get(f"{ENDPOINTS}/inbox").json()["items"] == []
    assert len(api.get(ENDPOINTS, params={"status": "active"}).json()["items"]) == 3


@pytest.mark.usefixtures("discovered")
def test_findings_show_observed_and_declared_values(api: httpx.Client) -> None:
    found = api.get(f"{ENDPOINTS}/{KNOWN}/findings").json()
    assert (found["port"], found["times"]) == ("Gi1/0/7", 3)
    assert [(each["source"], each["value"]) for each in found["evidence"]] == [("dhcp", "printer")]
    told = api.patch(f"{ENDPOINTS}/{KNOWN}/posture", json={"values": {"mdm.compliant": True, "mdm.os.major": 14}})
    assert told.status_code == 200, told.text
    posture = api.get(f"{ENDPOINTS}/{KNOWN}/findings").json()["posture"]
    values = {name: (each["value"], each["source"]) for name, each in posture.items()}
    assert values == {"mdm.compliant": (True, "api"), "mdm.os.major": (14, "api")}
    assert api.patch(f"{ENDPOINTS}/{KNOWN}/posture", json={"values": {"mdm.compliant": None}}).status_code == 200
    for wrong in ({}, {"colour": "red"}, {"mdm.x": 1.5}, {"mdm.x": "y" * 256}):
        assert api.patch(f"{ENDPOINTS}/{KNOWN}/posture", json={"values": wrong}).status_code == 422


@pytest.mark.parametrize(
    ("noun", "made"),
    [("endpoints", {"mac": PRINTER}), ("endpoint-groups", {"name": "cameras"})],
    ids=["device", "group"],
)
def test_generated_passphrase_is_shown_once(api: httpx.Client, noun: str, made: dict[str, str]) -> None:
    path = f"{TENANT}/{noun}"
    assert created(api.post(path, json=made))["psk"] is False
    path += f"/{next(iter(made.values()))}"
    assert api.put(f"{path}/passphrase", json={"passphrase": "over the hills"}).json() == {"passphrase": None}
    generated = api.put(f"{path}/passphrase", json={}).json()["passphrase"]
    assert len(generated) == 20
    read = api.get(path)
    assert (read.json()["psk"], generated in read.text) == (True, False)
    assert api.put(f"{path}/passphrase", json={"passphrase": "short"}).json()["place"] == "psk"
    assert api.delete(f"{path}/passphrase").status_code == 204
    assert api.get(path).json()["psk"] is False


def add(api: httpx.Client, name: str, **given: object) -> dict[str, object]:
    return created(api.post(USERS, json={"name": name, "password": PASSWORD} | given))


def test_user_lifecycle_never_shows_a_password(api: httpx.Client) -> None:
    created(api.post(GROUPS, json={"name": "staff"}))
    made = add(api, "Ann", groups=["staff"], chap=True)
    address = f"{USERS}/{made['id']}"
    assert (made["name"], made["groups"], made["chap"], made["mschap"]) == ("ann", ["staff"], True, False)
    changed = api.patch(address, json={"disabled": True, "groups": []}).json()
    assert (changed["disabled"], changed["groups"]) == (True, [])
    assert api.patch(address, json={"disabled": False}).json()["disabled"] is False
    another = api.put(f"{address}/password", json={"password": "battery staple", "mschap": True}).json()
    assert (another["chap"], another["mschap"]) == (True, True)
    assert api.put(f"{address}/password", json={"password": "short"}).json()["place"] == "password"
    assert api.delete(address).status_code == 204
    assert refusal(api.get(address)) == (404, "user-not-found")
    audited = api.get(f"{TENANT}/audit")
    actions = [each["action"] for each in audited.json()["items"] if each["action"].startswith("user.")]
    assert actions[::-1] == ["user.create", "user.change", "user.change", "user.change-password", "user.remove"]
    assert not any(word in audited.text for word in (PASSWORD, "battery"))


@pytest.mark.parametrize("noun", ["endpoint-groups", "user-groups"])
def test_group_is_created_found_and_deleted(api: httpx.Client, noun: str) -> None:
    groups = f"{TENANT}/{noun}"
    made = created(api.post(groups, json={"name": "Staff"}))
    assert api.post(groups, json={"name": "Staff"}).json()["code"] == "already-exists"
    assert api.get(f"{groups}/Staff").json() == api.get(f"{groups}/{made['id']}").json() == made
    assert api.delete(f"{groups}/Staff").status_code == 204
    for key in ("Staff", made["id"]):
        assert api.get(f"{groups}/{key}").json()["code"] == "unknown-group"


def test_user_is_found_by_name_or_id(api: httpx.Client) -> None:
    made = add(api, "Ann@Corp")
    # A name can look like an id. The API looks up the id first.
    other = add(api, str(made["id"]))
    for key in (made["id"], "ann@corp", "ANN@corp"):
        assert api.get(f"{USERS}/{key}").json() == made
    assert api.get(f"{USERS}/{other['id']}").json() == other
    assert api.patch(f"{USERS}/ann@corp", json={"disabled": True}).json()["disabled"] is True
    assert api.put(f"{USERS}/ann@corp/password", json={"password": "battery staple"}).status_code == 200
    for key in ("nobody", "0190b6c2-7c11-7d52-9a43-0c5d8f2e6b10", "x" * 253):
        assert api.get(f"{USERS}/{key}").json()["code"] == "user-not-found"
    assert api.delete(f"{USERS}/ann@corp").status_code == 204
