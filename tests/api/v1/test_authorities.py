"""Authorities: successors, offline keys, external authorities, profiles and server certificates."""

import base64
from typing import Any

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
from tests.api.v1.responses import created, refusal

HERE = "/v1/tenants/alpha"
AUTHORITIES = f"{HERE}/authorities"
PASSPHRASE = {"passphrase": "correct horse battery staple"}

pytestmark = pytest.mark.usefixtures("alpha")


def foreign_root(name: str = "Acme Root") -> x509.Certificate:
    given = {"key": generate_key(), "subject": subject_name(name), "serial": random_serial()}
    return issue_root(PROFILES["root"], now=utc_now(), **given)


def upload(*contents: str | x509.Certificate) -> dict[str, Any]:
    """Return the body of an upload."""
    texts = [text if isinstance(text, str) else text.public_bytes(Encoding.PEM).decode() for text in contents]
    return {"files": [{"name": f"{number}.pem", "content": text} for number, text in enumerate(texts)]}


def test_own_authorities_are_listed_with_status_urls(api: httpx.Client) -> None:
    # The two authorities have equal times, so their order is undefined.
    root, issuing = sorted(api.get(AUTHORITIES).json()["items"], key=lambda each: each["kind"], reverse=True)
    for authority, kind in ((root, "root"), (issuing, "issuing")):
        assert (authority["kind"], authority["status"], authority["signs_here"]) == (kind, "active", True)
    assert issuing["issuer"] == root["id"]
    assert issuing["crl_url"].endswith(f"/crl/{issuing['id']}.crl")
    assert api.get(f"{AUTHORITIES}/issuing").json() == issuing | {"ocsp": None}
    downloads = ("issuing/download?form=chain", "root/download")
    chain, alone = (x509.load_pem_x509_certificates(api.get(f"{AUTHORITIES}/{path}").content) for path in downloads)
    chain[0].verify_directly_issued_by(chain[1])
    assert alone == chain[1:]


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


def test_root_key_goes_offline_and_returns(api: httpx.Client) -> None:
    key = api.post(f"{AUTHORITIES}/root/export-key", json=PASSPHRASE).json()["key"]
    assert "ENCRYPTED" in key
    assert api.get(f"{AUTHORITIES}/root").json()["signs_here"] is True
    assert api.post(f"{AUTHORITIES}/root/forget-key").json()["signs_here"] is False
    assert api.post(f"{AUTHORITIES}/rollover", json={}).json()["code"] == "authority-key-away"
    wrong = api.post(f"{AUTHORITIES}/root/import-key", json={"key": key, "passphrase": "x" * 20})
    assert refusal(wrong) == (422, "certificate-refused")
    back = api.post(f"{AUTHORITIES}/root/import-key", json={"key": key, **PASSPHRASE})
    assert back.json()["signs_here"] is True
    assert api.post(f"{AUTHORITIES}/rollover", json={}).status_code == 200
    assert api.post(f"{AUTHORITIES}/root/export-key", json={"passphrase": "short"}).status_code == 422


def test_revoking_an_authority_revokes_its_certificates(api: httpx.Client) -> None:
    created(api.post(f"{HERE}/certificates", json={"name": "laptop-1"}))
    done = api.post(f"{AUTHORITIES}/issuing/revoke", json={"reason": "cACompromise"})
    assert done.json() == {"authorities": 1, "certificates": 2, "disconnects": 0}
    assert api.get(f"{AUTHORITIES}/issuing").status_code == 404
    refused = api.post(f"{HERE}/certificates", json={"name": "laptop-2"})
    assert (refused.status_code, refused.json()["place"]) == (409, "authority")


def test_external_authority_is_added_refreshed_and_deleted(api: httpx.Client, owner_engine: Engine) -> None:
    root, crl_url = foreign_root(), "http://crl.acme.example/root.crl"
    (row,) = created(api.post(AUTHORITIES, json=upload(root) | {"crl_url": crl_url}))["items"]
    assert (row["kind"], row["signs_here"], row["certificate_url"]) == ("external", False, None)
    assert row["sources"]["crl_url"] == crl_url
    path = f"{AUTHORITIES}/{row['id']}"
    assert api.get(path).json()["ocsp"]["certificates"] == 0
    # The upload is in base64, and its authority is already trusted.
    again = api.post(AUTHORITIES, json=upload(base64.b64encode(root.public_bytes(Encoding.DER)).decode()))
    assert [each["id"] for each in again.json()["items"]] == [row["id"]]
    changed = api.patch(path, json={"ocsp_url": "http://ocsp.acme.example"})
    assert changed.json()["sources"]["ocsp_url"] == "http://ocsp.acme.example"
    with owner_engine.begin() as connection:
        connection.execute(update(StatusSource).values(crl_checked_at=utc_now(), crl_failure="It does not answer."))
    # When the worker fetches a CRL, the state in the ETag does not change.
    tag = changed.headers["etag"]
    assert api.get(path, headers={"If-None-Match": tag}).json()["sources"]["crl_failure"] == "It does not answer."
    set_ = api.patch(path, json={"crl_url": "http://crl.acme.example/other.crl"}, headers={"If-Match": tag})
    assert set_.status_code == 200, set_.text
    for asked in (api.post(f"{path}/refresh"), api.post(f"{AUTHORITIES}/refresh")):
        assert asked.status_code == 202, asked.text
        assert asked.json()["items"] == [{"id": row["id"], "name": row["name"], "queries": ["crl"]}]
    for wrong in (api.post(f"{AUTHORITIES}/root/refresh"), api.delete(f"{AUTHORITIES}/root")):
        assert wrong.status_code == 422
    assert api.delete(path).json() == {"removed": [row["id"]]}
    assert api.get(path).status_code == 404


def test_invalid_upload_is_rejected_as_a_whole(api: httpx.Client) -> None:
    good = foreign_root()
    pem = upload(good)["files"][0]["content"]
    for content in (
        "",
        "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n",
        "-----BEGIN CERTIFICATE-----\n" * 5_000,
        "-----BEGIN PRIVATE KEY-----\nMIIB\n-----END PRIVATE KEY-----\n",
        "A" * 300_000,
        pem * 300,
        "".join(upload(foreign_root(f"R{number}"))["files"][0]["content"] for number in range(21)),
        api.get(f"{AUTHORITIES}/root/download").text,
    ):
        answer = api.post(AUTHORITIES, json=upload(good, content))
        assert refusal(answer) == (422, "invalid-upload"), answer.text
        assert {each["place"].partition(",")[0] for each in answer.json()["mistakes"]} == {"1.pem"}
    # Neither PEM nor base64.
    assert api.post(AUTHORITIES, json=upload(good, "?")).status_code == 422
    assert {each["kind"] for each in api.get(AUTHORITIES).json()["items"]} == {"root", "issuing"}


def test_profiles_key_store_and_expiring_ones_are_listed(api: httpx.Client) -> None:
    profiles = {each["name"]: each for each in api.get(f"{HERE}/certificate-profiles").json()["items"]}
    assert profiles["eap-client-device"]["usages"] == ["client-auth"]
    path = f"{HERE}/certificate-profiles/eap-client-device"
    chosen = api.put(path, json={"validity_days": 30}).json()
    assert (chosen["validity_days"], api.get(path).json()) == (30, chosen)
    made = created(api.post(f"{HERE}/certificates", json={"name": "laptop-1"}))["certificate"]
    found = api.get(f"{HERE}/expiring-certificates", params={"days": 40, "kind": "client", "limit": 1}).json()
    assert ([each["serial"] for each in found["items"]], found["next"]) == ([made["serial"]], None)
    assert api.put(f"{HERE}/certificate-profiles/none", json={}).json()["code"] == "profile-not-found"
    assert api.get(f"{AUTHORITIES}/key-store").json() == {"store": ""}
    assert api.put(f"{AUTHORITIES}/key-store", json={"store": "sealed"}).json() == {"store": "sealed"}


def test_new_server_names_warn_about_affected_clients(api: httpx.Client) -> None:
    before = api.get(f"{HERE}/certificates", params={"profile": "eap-server"}).json()["items"][0]["serial"]
    issued = created(api.post(f"{HERE}/server-certificates", json={"names": ["radius.acme.example"]}))
    assert (issued["names_gone"], issued["before"]) == (["radius.alpha.admit.example"], before)
    back = api.post(f"{HERE}/server-certificates/{before}/present").json()
    assert (back["certificate"]["serial"], back["names_gone"]) == (before, ["radius.acme.example"])
