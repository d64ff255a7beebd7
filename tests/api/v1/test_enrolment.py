"""Enrolment in the API: one-time secrets and links, SCEP, and device setup."""

import base64

import httpx
import psycopg
import pytest
from sqlalchemy import Engine

from tests.postgres import Database
from tests.statements import counted

HERE = "/v1/tenants/alpha"
SECRETS = f"{HERE}/enrolment-secrets"

pytestmark = pytest.mark.usefixtures("alpha")


def test_link_is_shown_once_and_works_until_revoked(api: httpx.Client, database: Database) -> None:
    made = api.post(f"{HERE}/enrolment-links", json={"common_name": "laptop-1", "owner": "Ann", "life_seconds": 900})
    assert made.status_code == 201, made.text
    token = made.json()["url"].rpartition("/")[2]
    shown = {name: value for name, value in made.json().items() if name != "url"}
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
    with counted(Engine) as statements:
        page = api.get(SECRETS, params={"limit": 1}).json()
    assert len(statements) <= 7
    rest = api.get(SECRETS, params={"after": page["next"]}).json()
    assert [each["id"] for each in (*page["items"], *rest["items"])] == sorted([est["id"], scep["id"]])


def test_invalid_enrolment_is_rejected(api: httpx.Client) -> None:
    for path, body in (
        ("enrolment-links", {}),
        ("enrolment-links", {"common_name": "x", "life_seconds": 400 * 86_400}),
        ("enrolment-links", {"common_name": "x", "ssid": "x" * 33}),
        ("enrolment-links", {"common_name": "\0"}),
        ("enrolment-secrets", {"uses": 0}),
        ("enrolment-secrets", {"kind": "scep"}),
        ("enrolment-secrets", {"common_name": "x", "any_name": True}),
        ("enrolment-secrets", {"name": "Not a slug"}),
        ("enrolment-secrets", {"endpoint_mac": "00:00:5e:00:53:99"}),
        ("enrolment-secrets", {"owner": "\n"}),
    ):
        answer = api.post(f"{HERE}/{path}", json=body)
        assert answer.status_code in (404, 422), answer.text
        assert api.get(SECRETS).json()["items"] == []


def test_device_setup_has_the_root_and_the_server_names(api: httpx.Client) -> None:
    for form in ("apple", "windows", "wpa_supplicant", "networkmanager", "android"):
        told = api.get(
            f"{HERE}/device-set-up", params={"form": form, "ssid": "office", "server_name": "b.example"}
        ).json()
        assert told["server_names"] == ["radius.alpha.admit.example", "b.example"]
        files = {each["name"]: base64.b64decode(each["content"]) for each in told["files"]}
        assert any(b"radius.alpha.admit.example" in content for content in files.values())
        assert api.get(f"{HERE}/device-set-up", params={"form": form, "ssid": "x" * 33}).status_code == 422


def test_scep_registration_authority_and_webhook_are_set(api: httpx.Client) -> None:
    first, second = (api.get(f"{HERE}/scep").json() for _ in range(2))
    assert first == second
    assert first["webhook"] is None
    hook = f"{HERE}/scep/webhook"
    assert api.get(hook).json()["code"] == "scep-webhook-not-found"
    made = api.put(hook, json={"url": "https://mdm.acme.example/scep", "networks": ["192.0.2.0/24"]})
    assert made.status_code == 200, made.text
    secret = made.json().pop("secret")
    shown = api.get(hook)
    assert secret not in shown.text
    assert shown.json()["networks"] == ["192.0.2.0/24"]
    assert api.get(f"{HERE}/scep").json()["webhook"] == "https://mdm.acme.example/scep"
    changed = {"url": "https://mdm.acme.example/other"}
    assert api.put(hook, json=changed, headers={"If-Match": '"x"'}).status_code == 412
    assert api.put(hook, json=changed, headers={"If-Match": shown.headers["etag"]}).json()["secret"] != secret
    for wrong in (
        {"url": "http://mdm.acme.example"},
        {"url": "https://x", "networks": ["x"]},
        {"url": "https://x", "ca_certificate": "x"},
        {"url": "https://x", "timeout_seconds": 60},
    ):
        assert api.put(hook, json=wrong).status_code == 422
    assert api.delete(hook).status_code == 204
    assert api.get(hook).status_code == 404


def test_renewal_may_keep_its_key_if_configured(api: httpx.Client) -> None:
    path = f"{HERE}/renewal-settings"
    assert api.get(path).json() == {"keeps_key": False}
    assert api.put(path, json={"keeps_key": True}).json() == {"keeps_key": True}
    assert api.get(path).json() == {"keeps_key": True}


def test_scep_without_an_issuing_authority_is_reported(api: httpx.Client, database: Database) -> None:
    with psycopg.connect(database.owner_url) as connection:
        connection.execute("UPDATE certificate_authorities SET status = 'retired' WHERE kind = 'issuing'")
    refused = api.get(f"{HERE}/scep")
    assert (refused.status_code, refused.json()["place"]) == (409, "authority")
    promised = api.get("/openapi.json").json()["paths"]["/v1/tenants/{tenant}/scep"]["get"]["responses"]
    assert "409" in promised
