"""Certificates: issued, downloaded, renewed and revoked."""

import base64
from contextlib import suppress
from typing import Any

import httpx
import psycopg
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, pkcs12
from hypothesis import given
from hypothesis import strategies as st

from api.v1.certificate_models import parse_alternative_names, parse_signing_request
from nac.certificates import issuance
from nac.certificates.errors import CertificateRefused
from pki.signing_requests import SigningRequest
from tests.api.v1.conftest import request_pem
from tests.api.v1.responses import created, refusal
from tests.postgres import Database

HERE = "/v1/tenants/alpha"
CERTIFICATES = f"{HERE}/certificates"
PRINTER = "00:00:5e:00:53:01"

pytestmark = pytest.mark.usefixtures("alpha")


def issue(api: httpx.Client, **more: Any) -> dict[str, Any]:
    return created(api.post(CERTIFICATES, json={"name": "laptop-1", **more}))


def public_bytes(key: Any) -> bytes:
    return key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def test_generated_key_is_returned_once(api: httpx.Client, database: Database) -> None:
    headers = {"Idempotency-Key": "k"}
    asked = {"name": "laptop-1", "names": ["dns:laptop-1.acme.example"]}
    answer, again = (api.post(CERTIFICATES, json=asked, headers=headers) for _ in range(2))
    assert answer.status_code == again.status_code == 201, answer.text
    assert again.json() == answer.json()
    assert again.headers["idempotency-replayed"] == "true"
    made = answer.json()
    key = serialization.load_pem_private_key(made["key"].encode(), None)
    leaf, issuing_authority = x509.load_pem_x509_certificates(made["pem"].encode())
    assert public_bytes(key.public_key()) == public_bytes(leaf.public_key())
    leaf.verify_directly_issued_by(issuing_authority)
    issuing_authority.verify_directly_issued_by(x509.load_pem_x509_certificate(made["ca"].encode()))
    shown = api.get(f"{CERTIFICATES}/{made['certificate']['serial']}").json()
    assert shown == made["certificate"]
    assert (shown["name"], shown["names"], shown["status"]) == ("laptop-1", ["dns:laptop-1.acme.example"], "valid")
    assert shown["ocsp_url"].startswith("http")
    assert len(api.get(CERTIFICATES, params={"name": "laptop"}).json()["items"]) == 1
    secret = made["key"].splitlines()[1]
    with psycopg.connect(database.owner_url) as connection:
        for table in ("idempotency_keys", "audit_log", "certificates"):
            rows = connection.execute(f"SELECT t::text FROM {table} t".encode()).fetchall()
            assert rows
            for form in (secret, secret.encode().hex()):
                assert not any(form in row[0] for row in rows), table


def test_bundle_opens_with_its_password_and_csr_keeps_its_key(api: httpx.Client) -> None:
    for password in (None, "correct horse"):
        made = issue(api, pkcs12={"password": password} if password else {})
        assert made["key"] is None
        assert password in (None, made["pkcs12_password"])
        bundle = pkcs12.load_pkcs12(base64.b64decode(made["pkcs12"]), made["pkcs12_password"].encode())
        assert bundle.cert is not None
        assert bundle.cert.certificate.serial_number == int(made["certificate"]["serial"], 16)
    pem = request_pem()
    signed = issue(api, csr=pem)
    assert (signed["key"], signed["pkcs12"]) == (None, None)
    leaf = x509.load_pem_x509_certificates(signed["pem"].encode())[0]
    wanted = x509.load_pem_x509_csr(pem.encode()).public_key()
    assert public_bytes(leaf.public_key()) == public_bytes(wanted)
    assert refusal(api.post(CERTIFICATES, json={"name": "other", "csr": pem})) == (409, "duplicate-key")


def test_certificate_lifecycle_ends_in_revocation(api: httpx.Client) -> None:
    first = issue(api, names=["dns:laptop-1.acme.example"])["certificate"]
    path = f"{CERTIFICATES}/{first['serial']}"
    second = created(api.post(f"{path}/renew", json={"csr": request_pem()}))["certificate"]
    assert (second["names"], second["name"]) == (first["names"], first["name"])
    assert api.get(path).json()["renewed_by"] == [second["serial"]]
    with_key = api.post(f"{path}/renew", json={})
    assert with_key.json()["key"].startswith("-----BEGIN")
    assert api.post(f"{path}/renew", json={"csr": request_pem("somebody")}).json()["code"] == "name-refused"
    assert api.post(f"{path}/suspend").json()["status"] == "suspended"
    assert api.post(f"{path}/renew", json={}).json()["code"] == "renewal-refused"
    assert api.post(f"{path}/reinstate").json()["status"] == "valid"
    revoked = api.post(f"{path}/revoke", json={"reason": "keyCompromise"})
    assert (revoked.json()["status"], revoked.json()["revocation_reason"]) == ("revoked", "keyCompromise")
    assert int(revoked.headers["admit-position"]) > 0
    assert api.get(f"{CERTIFICATES}/{second['serial']}").json()["status"] == "revoked"
    assert api.post(f"{path}/reinstate").json()["code"] == "certificate-status-conflict"


def test_device_certificates_are_found_and_revoked_together(api: httpx.Client) -> None:
    api.post(f"{HERE}/endpoints", json={"mac": PRINTER})
    serials = {issue(api, endpoint=PRINTER)["certificate"]["serial"] for _ in range(2)}
    other = issue(api)["certificate"]["serial"]
    found = api.get(CERTIFICATES, params={"endpoint": PRINTER}).json()["items"]
    assert {each["serial"] for each in found} == serials
    assert api.get(f"{CERTIFICATES}/{min(serials)}").json()["endpoint"] == PRINTER
    for action, status in (("suspend-all", "suspended"), ("reinstate-all", "valid"), ("revoke-all", "revoked")):
        done = api.post(f"{CERTIFICATES}/{action}", json={"endpoint": PRINTER})
        assert done.json() == {"authorities": 0, "certificates": 2, "disconnects": 0}
        found = api.get(CERTIFICATES, params={"status": status, "endpoint": PRINTER}).json()["items"]
        assert {each["serial"] for each in found} == serials
    assert api.get(f"{CERTIFICATES}/{other}").json()["status"] == "valid"


def test_downloads_are_readable_by_tools(api: httpx.Client) -> None:
    made = issue(api)
    path = f"{CERTIFICATES}/{made['certificate']['serial']}/download"
    for form, text in (("pem", made["pem"]), ("chain", made["chain"]), ("ca", made["ca"])):
        answer = api.get(path, params={"form": form})
        assert (answer.text, answer.headers["content-type"]) == (text, "application/x-pem-file")
    der = x509.load_der_x509_certificate(api.get(path, params={"form": "der"}).content)
    assert der.serial_number == int(made["certificate"]["serial"], 16)


def test_change_that_fails_after_its_intent_is_retryable(api: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise CertificateRefused("The token is away.")

    headers = {"Idempotency-Key": "k"}
    with monkeypatch.context() as patch:
        patch.setattr(issuance, "issue", fail)
        failed = api.post(CERTIFICATES, json={"name": "laptop-1"}, headers=headers)
        assert failed.json()["detail"] == "The token is away."
    intended = api.get(CERTIFICATES, params={"status": "intended"}).json()["items"]
    assert [each["name"] for each in intended] == ["laptop-1"]
    made = api.post(CERTIFICATES, json={"name": "laptop-1"}, headers=headers)
    assert made.status_code == 201, made.text
    assert "idempotency-replayed" not in made.headers


def test_interrupted_change_is_reported_then_retried(api: httpx.Client, database: Database) -> None:
    headers = {"Idempotency-Key": "k"}
    made = api.post(CERTIFICATES, json={"name": "laptop-1"}, headers=headers)
    with psycopg.connect(database.owner_url, autocommit=True) as connection:
        # The state of the certificate after the commit of the intent.
        connection.execute("UPDATE idempotency_keys SET status = NULL, headers = NULL, body_sealed = NULL")
        waits = api.post(CERTIFICATES, json={"name": "laptop-1"}, headers=headers)
        assert refusal(waits) == (409, "still-under-way")
        assert waits.headers["retry-after"] == "1"
        connection.execute("UPDATE idempotency_keys SET created_at = now() - interval '2 minutes'")
    again = api.post(CERTIFICATES, json={"name": "laptop-1"}, headers=headers)
    assert again.status_code == 201
    assert again.json()["certificate"]["serial"] != made.json()["certificate"]["serial"]


_REQUEST = request_pem()
# The API rejects JSON with half of a surrogate pair earlier.
_TEXT = st.text(st.characters(exclude_categories=["Cs"]))


@given(
    st.one_of(
        _TEXT,
        st.tuples(st.integers(0, len(_REQUEST)), st.integers(0, len(_REQUEST)), _TEXT).map(
            lambda cut: _REQUEST[: min(cut[:2])] + cut[2] + _REQUEST[max(cut[:2]) :]
        ),
        st.binary(max_size=400).map(
            lambda der: _REQUEST.splitlines()[0] + f"\n{base64.b64encode(der).decode()}\n" + _REQUEST.splitlines()[-1]
        ),
    )
)
def test_arbitrary_csr_text_is_parsed_or_rejected(text: str) -> None:
    with suppress(CertificateRefused):
        assert isinstance(parse_signing_request(text), SigningRequest)


@given(st.lists(_TEXT, max_size=3))
def test_arbitrary_alternative_names_are_valid_or_rejected(texts: list[str]) -> None:
    with suppress(CertificateRefused):
        assert len(parse_alternative_names(texts)) == len(texts)
