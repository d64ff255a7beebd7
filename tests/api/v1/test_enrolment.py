"""Enrolment: one-time secrets and links, SCEP, and device setup."""

import base64

import httpx
import psycopg
import pytest

from tests.api.v1.responses import created
from tests.postgres import Database

HERE = "/v1/tenants/alpha"
SECRETS = f"{HERE}/enrolment-secrets"

pytestmark = pytest.mark.usefixtures("alpha")


def test_link_is_shown_once_and_works_until_revoked(api: httpx.Client, database: Database) -> None:
    body = {"common_name": "laptop-1", "owner": "Ann", "life_seconds": 900}
    shown = created(api.post(f"{HERE}/enrolment-links", json=body))
    token = shown.pop("url").rpartition("/")[2]
    assert (shown["kind"], shown["status"], shown["most_uses"]) == ("link", "open", 1)
    assert api.get(f"{SECRETS}/{shown['id']}").json() == shown
    assert api.get(SECRETS).json()["items"] == [shown]
    with psycopg.connect(database.owner_url) as connection:
        for table in ("enrolment_secrets", "audit_log"):
            rows = connection.execute(f"SELECT t::text FROM {table} t".encode()).fetchall()
            assert rows
            assert not any(token in row[0] for row in rows)
    assert api.post(f"{SECRETS}/{shown['id']}/revoke").json()["status"] == "revoked"


def test_est_and_scep_secrets_name_their_urls(api: httpx.Client) -> None:
    est = api.post(SECRETS, json={"name": "lab", "uses": 5}).json()
    assert est["url"].endswith("/.well-known/est/alpha")
    assert (est["user"], est["name"], est["most_uses"]) == ("lab", "lab", 5)
    assert api.get(f"{SECRETS}/lab").json()["id"] == est["id"]
    scep = api.post(SECRETS, json={"kind": "scep", "common_name": "phone-1"}).json()
    assert scep["url"] == api.get(f"{HERE}/scep").json()["url"]
    assert scep["user"] is None
    assert scep["id"] in scep["secret"]
    assert api.post(SECRETS, json={"name": "lab", "uses": 5}).json()["code"] == "already-exists"


def test_device_setup_has_the_root_and_the_server_names(api: httpx.Client) -> None:
    for form in ("apple", "windows", "wpa_supplicant", "networkmanager", "android"):
        asked = {"form": form, "ssid": "office", "server_name": "b.example"}
        told = api.get(f"{HERE}/device-set-up", params=asked).json()
        assert told["server_names"] == ["radius.alpha.admit.example", "b.example"]
        files = {each["name"]: base64.b64decode(each["content"]) for each in told["files"]}
        assert any(b"radius.alpha.admit.example" in content for content in files.values())
        assert api.get(f"{HERE}/device-set-up", params=asked | {"ssid": "x" * 33}).status_code == 422


def test_scep_registration_authority_and_webhook_are_set(api: httpx.Client) -> None:
    first, second = (api.get(f"{HERE}/scep").json() for _ in range(2))
    assert first == second
    assert first["webhook"] is None
    hook = f"{HERE}/scep/webhook"
    assert api.get(hook).json()["code"] == "scep-webhook-not-found"
    secret = api.put(hook, json={"url": "https://mdm.acme.example/scep", "networks": ["192.0.2.0/24"]}).json()["secret"]
    shown = api.get(hook)
    assert secret not in shown.text
    assert shown.json()["networks"] == ["192.0.2.0/24"]
    assert api.get(f"{HERE}/scep").json()["webhook"] == "https://mdm.acme.example/scep"
    assert api.put(hook, json={"url": "https://mdm.acme.example/other"}).json()["secret"] != secret
    assert api.delete(hook).status_code == 204
    assert api.get(hook).status_code == 404


def test_renewal_may_keep_its_key_if_configured(api: httpx.Client) -> None:
    path, changed = f"{HERE}/renewal-settings", {"keeps_key": True}
    assert api.get(path).json() == {"keeps_key": False}
    assert api.put(path, json=changed).json() == api.get(path).json() == changed


def test_scep_without_an_issuing_authority_is_reported(api: httpx.Client, database: Database) -> None:
    with psycopg.connect(database.owner_url) as connection:
        connection.execute("UPDATE certificate_authorities SET status = 'retired' WHERE kind = 'issuing'")
    refused = api.get(f"{HERE}/scep")
    assert (refused.status_code, refused.json()["place"]) == (409, "authority")
    promised = api.get("/openapi.json").json()["paths"]["/v1/tenants/{tenant}/scep"]["get"]["responses"]
    assert "409" in promised
