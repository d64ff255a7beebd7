"""The inbox of new devices and the findings of a device, in the API."""

import httpx
import pytest
from sqlalchemy import Engine

from nac.kit.clock import utc_now
from nac.kit.db import TenantScope, session_scope
from nac.kit.ids import TenantId
from nac.models import Endpoint, EndpointEvidence, EndpointSighting

ENDPOINTS = "/v1/tenants/alpha/endpoints"
LASTING, RANDOM, KNOWN = "00005e005301", "02005e005302", "00005e005303"


@pytest.fixture(autouse=True)
def discovered(app_engine: Engine, owner_engine: Engine, tenant_id: TenantId) -> None:
    now = utc_now()
    with session_scope(TenantScope(tenant_id), engine=app_engine) as session:
        session.add(Endpoint(tenant_id=tenant_id, mac=LASTING, status="discovered", vendor="Axis", first_seen_at=now))
        session.add(Endpoint(tenant_id=tenant_id, mac=RANDOM, status="discovered", first_seen_at=now))
        session.add(Endpoint(tenant_id=tenant_id, mac=KNOWN, name="Printer"))
    with owner_engine.begin() as connection:
        for mac in (LASTING, KNOWN):
            seen = {"tenant_id": tenant_id, "mac": mac, "last_seen_at": now, "nas_port": "Gi1/0/7", "times": 3}
            connection.execute(EndpointSighting.__table__.insert(), seen)
        told = {
            "tenant_id": tenant_id,
            "mac": KNOWN,
            "source": "dhcp",
            "key": "hostname",
            "value": "printer",
            "at": now,
        }
        connection.execute(EndpointEvidence.__table__.insert(), told)


def test_inbox_shows_the_facts_that_decisions_use(api: httpx.Client) -> None:
    items = api.get(f"{ENDPOINTS}/inbox").json()["items"]
    assert [each["mac"] for each in items] == ["00:00:5e:00:53:01", "02:00:5e:00:53:02"]
    assert (items[0]["port"], items[0]["times"], items[0]["vendor"]) == ("Gi1/0/7", 3, "Axis")
    assert [each["random"] for each in items] == [False, True]
    assert len(api.get(f"{ENDPOINTS}/inbox", params={"vendor": "axis"}).json()["items"]) == 1
    assert len(api.get(f"{ENDPOINTS}/inbox", params={"random": "true"}).json()["items"]) == 1


def test_bulk_classification_applies_to_all_or_none(api: httpx.Client) -> None:
    for body, status in (
        ({"action": "approve"}, 422),
        ({"action": "approve", "macs": [LASTING, RANDOM]}, 422),
        ({"action": "approve", "macs": [LASTING, KNOWN]}, 422),
        ({"action": "burn", "macs": [LASTING]}, 422),
    ):
        answer = api.post(f"{ENDPOINTS}/classify", json=body)
        assert answer.status_code == status, answer.text
    tried = api.post(f"{ENDPOINTS}/classify", json={"action": "block", "vendor": "Axis", "dry_run": True}).json()
    assert (tried["count"], tried["items"][0]["mac"]) == (1, "00:00:5e:00:53:01")
    assert len(api.get(f"{ENDPOINTS}/inbox").json()["items"]) == 2
    done = api.post(
        f"{ENDPOINTS}/classify", json={"action": "approve", "macs": [LASTING, RANDOM], "allow_random": True}
    )
    assert (done.status_code, done.json()["count"]) == (200, 2)
    assert api.get(f"{ENDPOINTS}/inbox").json()["items"] == []
    assert len(api.get(ENDPOINTS, params={"status": "active"}).json()["items"]) == 3


def test_findings_show_observed_and_declared_values(api: httpx.Client) -> None:
    found = api.get(f"{ENDPOINTS}/{KNOWN}/findings").json()
    assert (found["port"], found["times"]) == ("Gi1/0/7", 3)
    assert [(each["source"], each["value"]) for each in found["evidence"]] == [("dhcp", "printer")]
    told = api.patch(f"{ENDPOINTS}/{KNOWN}/posture", json={"values": {"mdm.compliant": True, "mdm.os.major": 14}})
    assert told.status_code == 200, told.text
    posture = api.get(f"{ENDPOINTS}/{KNOWN}/findings").json()["posture"]
    assert {name: (each["value"], each["source"]) for name, each in posture.items()} == {
        "mdm.compliant": (True, "api"),
        "mdm.os.major": (14, "api"),
    }
    assert api.patch(f"{ENDPOINTS}/{KNOWN}/posture", json={"values": {"mdm.compliant": None}}).status_code == 200
    for values in ({}, {"colour": "red"}, {"mdm.x": 1.5}, {"mdm.x": "y" * 256}):
        assert api.patch(f"{ENDPOINTS}/{KNOWN}/posture", json={"values": values}).status_code == 422


def test_generated_passphrase_is_shown_once(api: httpx.Client) -> None:
    address = f"{ENDPOINTS}/{KNOWN}/passphrase"
    made = api.put(address, json={})
    assert len(made.json()["passphrase"]) == 20
    read = api.get(f"{ENDPOINTS}/{KNOWN}")
    assert read.json()["psk"] is True
    assert made.json()["passphrase"] not in read.text
    assert api.put(address, json={"passphrase": "short"}).json()["place"] == "psk"
    assert api.delete(address).status_code == 204
    assert api.get(f"{ENDPOINTS}/{KNOWN}").json()["psk"] is False
