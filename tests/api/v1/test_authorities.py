"""Authorities through the API: successors, offline keys, and external authorities."""

import base64
from datetime import timedelta

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from sqlalchemy import Engine, update

from nac.kit.clock import utc_now
from nac.models import StatusSource
from pki.issuance import issue_root
from pki.keys import generate_key
from pki.names import subject_name
from pki.profiles import PROFILES
from pki.serials import random_serial
from tests.statements import counted

HERE = "/v1/tenants/alpha"
AUTHORITIES = f"{HERE}/authorities"
PASSPHRASE = {"passphrase": "correct horse battery staple"}

pytestmark = pytest.mark.usefixtures("alpha")


def foreign_root(name: str = "Acme Root") -> x509.Certificate:
    given = {"key": generate_key(), "subject": subject_name(name), "serial": random_serial()}
    return issue_root(PROFILES["root"], now=utc_now(), **given)


def upload(api: httpx.Client, *contents: str, **more: object) -> httpx.Response:
    files = [{"name": f"{number}.pem", "content": content} for number, content in enumerate(contents)]
    return api.post(AUTHORITIES, json={"files": files, **more})


def pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(Encoding.PEM).decode()


def test_own_authorities_are_listed_with_status_urls(api: httpx.Client) -> None:
    # The two authorities have equal times, so their order is undefined.
    items = sorted(api.get(AUTHORITIES).json()["items"], key=lambda each: each["kind"], reverse=True)
    assert [(each["kind"], each["status"], each["signs_here"]) for each in items] == [
        ("root", "active", True),
        ("issuing", "active", True),
    ]
    root, issuing = items
    assert issuing["issuer"] == root["id"]
    assert issuing["crl_url"] == f"http://127.0.0.1/crl/{issuing['id']}.crl" or issuing["crl_url"].endswith(".crl")
    assert api.get(f"{AUTHORITIES}/issuing").json() == issuing | {"ocsp": None}
    chain = x509.load_pem_x509_certificates(
        api.get(f"{AUTHORITIES}/issuing/download", params={"form": "chain"}).content
    )
    chain[0].verify_directly_issued_by(chain[1])
    assert len(x509.load_pem_x509_certificates(api.get(f"{AUTHORITIES}/root/download").content)) == 1


@pytest.mark.parametrize("of_root", [False, True])
def test_rollover_retires_the_previous_authorities(api: httpx.Client, of_root: bool) -> None:
    before = {each["kind"]: each["id"] for each in api.get(AUTHORITIES).json()["items"]}
    headers = {"Idempotency-Key": "k"}
    answer, again = (api.post(f"{AUTHORITIES}/rollover", json={"root": of_root}, headers=headers) for _ in range(2))
    assert answer.status_code == 200, answer.text
    assert again.json() == answer.json()
    done = answer.json()
    assert set(done["retired"]) == ({*before.values()} if of_root else {before["issuing"]})
    assert (done["root"] == before["root"]) is not of_root
    assert bool(done["server_certificate"]) is of_root
    assert api.get(f"{AUTHORITIES}/issuing").json()["id"] == done["issuing"]["id"]
    later = {"present_from": (utc_now() + timedelta(days=1)).isoformat()}
    refused = api.post(f"{AUTHORITIES}/rollover", json=later)
    assert (refused.status_code, refused.json()["place"]) == (422, "present_from")


def test_root_key_goes_offline_and_returns(api: httpx.Client) -> None:
    exported = api.post(f"{AUTHORITIES}/root/export-key", json=PASSPHRASE)
    assert exported.status_code == 200, exported.text
    key = exported.json()["key"]
    assert "ENCRYPTED" in key
    assert api.get(f"{AUTHORITIES}/root").json()["signs_here"] is True
    assert api.post(f"{AUTHORITIES}/root/forget-key").json()["signs_here"] is False
    assert api.post(f"{AUTHORITIES}/rollover", json={}).json()["code"] == "authority-key-away"
    wrong = api.post(f"{AUTHORITIES}/root/import-key", json={"key": key, "passphrase": "x" * 20})
    assert (wrong.status_code, wrong.json()["code"]) == (422, "certificate-refused")
    back = api.post(f"{AUTHORITIES}/root/import-key", json={"key": key, **PASSPHRASE})
    assert back.json()["signs_here"] is True
    assert api.post(f"{AUTHORITIES}/rollover", json={}).status_code == 200
    assert api.post(f"{AUTHORITIES}/root/export-key", json={"passphrase": "short"}).status_code == 422


def test_revoking_an_authority_revokes_its_certificates(api: httpx.Client) -> None:
    api.post(f"{HERE}/certificates", json={"name": "laptop-1"})
    done = api.post(f"{AUTHORITIES}/issuing/revoke", json={"reason": "cACompromise"})
    assert done.json() == {"authorities": 1, "certificates": 2, "disconnects": 0}
    assert api.get(f"{AUTHORITIES}/issuing").status_code == 404
    refused = api.post(f"{HERE}/certificates", json={"name": "laptop-2"})
    assert (refused.status_code, refused.json()["place"]) == (409, "authority")


def test_external_authority_is_added_refreshed_and_deleted(api: httpx.Client, owner_engine: Engine) -> None:
    root = foreign_root()
    answer = upload(api, pem(root), crl_url="http://crl.acme.example/root.crl")
    assert answer.status_code == 201, answer.text
    (row,) = answer.json()["items"]
    assert (row["kind"], row["signs_here"], row["certificate_url"]) == ("external", False, None)
    assert row["sources"]["crl_url"] == "http://crl.acme.example/root.crl"
    path = f"{AUTHORITIES}/{row['id']}"
    shown = api.get(path)
    assert shown.json()["ocsp"]["certificates"] == 0
    # The upload is in base64, and its authority is already trusted.
    again = upload(api, base64.b64encode(root.public_bytes(Encoding.DER)).decode())
    assert [each["id"] for each in again.json()["items"]] == [row["id"]]
    changed = api.patch(path, json={"ocsp_url": "http://ocsp.acme.example"})
    assert changed.json()["sources"]["ocsp_url"] == "http://ocsp.acme.example"
    stale = api.patch(path, json={"crl_url": ""}, headers={"If-Match": shown.headers["etag"]})
    assert stale.status_code == 412
    with owner_engine.begin() as connection:
        connection.execute(update(StatusSource).values(crl_checked_at=utc_now(), crl_failure="It does not answer."))
    # When the worker fetches a CRL, the ETag does not change.
    tag = changed.headers["etag"]
    assert api.get(path, headers={"If-None-Match": tag}).json()["sources"]["crl_failure"] == "It does not answer."
    set_ = api.patch(path, json={"crl_url": "http://crl.acme.example/other.crl"}, headers={"If-Match": tag})
    assert set_.status_code == 200, set_.text
    for asked in (api.post(f"{path}/refresh"), api.post(f"{AUTHORITIES}/refresh")):
        assert asked.status_code == 202, asked.text
        assert asked.json()["items"] == [{"id": row["id"], "name": row["name"], "asked": ["crl"]}]
    for wrong in (api.post(f"{AUTHORITIES}/root/refresh"), api.delete(f"{AUTHORITIES}/root")):
        assert wrong.status_code == 422
    assert api.delete(path).json() == {"removed": [row["id"]]}
    assert api.get(path).status_code == 404


def test_list_queries_do_not_grow_with_its_length(api: httpx.Client) -> None:
    costs = []
    for name in ("A", "B"):
        assert upload(api, pem(foreign_root(name))).status_code == 201
        with counted(Engine) as statements:
            assert api.get(AUTHORITIES).status_code == 200
        costs.append(len(statements))
    assert costs[0] == costs[1] <= 7, costs


@pytest.mark.parametrize(
    ("content", "count"),
    [
        pytest.param("", 1, id="nothing"),
        pytest.param("?", None, id="no base64"),
        pytest.param("-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n", 1, id="cut off"),
        pytest.param("-----BEGIN CERTIFICATE-----\n" * 5_000, 1, id="beginnings"),
        pytest.param("-----BEGIN PRIVATE KEY-----\nMIIB\n-----END PRIVATE KEY-----\n", 1, id="key"),
        pytest.param("A" * 300_000, 1, id="zeros"),
        pytest.param("bomb", 1, id="bomb"),
        pytest.param("many", 1, id="many"),
        pytest.param("own", 1, id="own"),
    ],
)
def test_invalid_upload_is_rejected_as_a_whole(api: httpx.Client, content: str, count: int | None) -> None:
    good = pem(foreign_root())
    if content == "many":
        content = "".join(pem(foreign_root(f"R{number}")) for number in range(21))
    elif content == "own":
        content = api.get(f"{AUTHORITIES}/root/download").text
    elif content == "bomb":
        content = good * 300
    answer = upload(api, good, content)
    assert answer.status_code == 422, answer.text
    if count is not None:
        assert answer.json()["code"] == "invalid-upload"
        assert {each["place"].partition(",")[0] for each in answer.json()["mistakes"]} == {"1.pem"}
    assert {each["kind"] for each in api.get(AUTHORITIES).json()["items"]} == {"root", "issuing"}


def test_profiles_key_store_and_expiring_ones_are_listed(api: httpx.Client) -> None:
    profiles = {each["name"]: each for each in api.get(f"{HERE}/certificate-profiles").json()["items"]}
    assert profiles["eap-client-device"]["usages"] == ["client-auth"]
    path = f"{HERE}/certificate-profiles/eap-client-device"
    chosen = api.put(path, json={"validity_days": 30})
    assert chosen.json()["validity_days"] == 30
    assert api.get(path).json() == chosen.json()
    made = api.post(f"{HERE}/certificates", json={"name": "laptop-1"}).json()["certificate"]
    found = api.get(f"{HERE}/expiring-certificates", params={"days": 40, "kind": "client", "limit": 1})
    assert [each["serial"] for each in found.json()["items"]] == [made["serial"]]
    assert found.json()["next"] is None
    for body in ({"validity_days": 36_000}, {"key": "rsa-512"}, {"colour": "red"}):
        assert api.put(path, json=body).status_code == 422
    assert api.put(f"{HERE}/certificate-profiles/none", json={}).json()["code"] == "profile-not-found"
    assert api.get(f"{AUTHORITIES}/key-store").json() == {"store": ""}
    assert api.put(f"{AUTHORITIES}/key-store", json={"store": "sealed"}).json() == {"store": "sealed"}
    assert api.put(f"{AUTHORITIES}/key-store", json={"store": "cloud"}).status_code == 422


def test_new_server_names_warn_about_affected_clients(api: httpx.Client) -> None:
    before = api.get(f"{HERE}/certificates", params={"profile": "eap-server"}).json()["items"][0]["serial"]
    issued = api.post(f"{HERE}/server-certificates", json={"names": ["radius.acme.example"]})
    assert issued.status_code == 201, issued.text
    assert (issued.json()["names_gone"], issued.json()["before"]) == (["radius.alpha.admit.example"], before)
    back = api.post(f"{HERE}/server-certificates/{before}/present")
    assert (back.json()["certificate"]["serial"], back.json()["names_gone"]) == (before, ["radius.acme.example"])
    for names in ([], ["not a host"], ["x" * 300]):
        assert api.post(f"{HERE}/server-certificates", json={"names": names}).status_code == 422
