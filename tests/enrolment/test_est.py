"""EST over TLS, with curl, openssl and strongSwan as clients."""

import base64
import ssl
import subprocess
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, pkcs7
from fastapi import Request
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Engine, select

from api.enrolment import est as est_routes
from api.enrolment.server_certificate import ensure_certificate
from nac.certificates import service as certificates
from nac.certificates.enrolment.errors import SecretNeeded
from nac.certificates.rollover import execute_rollover, plan_rollover
from nac.certificates.supplicants.service import describe_network
from nac.kit.db import PlatformScope, TenantScope, session_scope
from nac.kit.settings import load_settings
from nac.models import AuditEntry
from nac.tenancy.tenants import service as tenants
from pki.bundles import certificates_pem
from pki.errors import KeyNotAllowed, RequestNotAllowed
from pki.est import encode_key_attributes, read_body
from pki.keys import PrivateKey, key_pem
from pki.signing_requests import read_signing_request
from tests.enrolment.conftest import make_secret, request_der, signed, user
from tests.enrolment.enrolment_server import CurlReply, EstServer
from tests.factories.certificates import SIGNING, Certified, certify
from tests.factories.tenancy import ACTOR, make_tenant
from tests.polling import until


def certificates_in(reply: CurlReply) -> list[x509.Certificate]:
    assert reply.status == 200, reply.text
    assert reply.headers["content-transfer-encoding"] == "base64"
    assert reply.headers["content-type"].startswith("application/pkcs7-mime")
    return pkcs7.load_der_pkcs7_certificates(base64.b64decode(reply.body))


def filtered(command: list[str], data: bytes) -> bytes:
    return subprocess.run(command, input=data, check=True, capture_output=True).stdout


def encoded(**named: object) -> bytes:
    return base64.encodebytes(request_der(**named))


def last_refusal(of: Certified, app_engine: Engine) -> AuditEntry:
    with session_scope(TenantScope(of.tenant_id), engine=app_engine) as session:
        query = select(AuditEntry).where(AuditEntry.action.contains("refuse")).order_by(AuditEntry.id.desc())
        return session.scalars(query.limit(1)).one()


@dataclass(frozen=True)
class Device:
    certificate: x509.Certificate
    key: PrivateKey
    # Files for curl.
    shown: tuple[str, ...]


def enrolled(est: EstServer, app_engine: Engine, of: Certified, *, slug: str = "alpha", name: str = "laptop") -> Device:
    key = ec.generate_private_key(ec.SECP256R1())
    token = make_secret(app_engine, of).token
    body = encoded(common_name=name, key=key)
    reply = est.ask(slug, "simpleenroll", *user(token), body=body)
    (certificate,) = certificates_in(reply)
    return Device(certificate, key, on_disk(est, f"{slug}-{name}", certificate, key))


def on_disk(est: EstServer, stem: str, certificate: x509.Certificate, key: PrivateKey) -> tuple[str, ...]:
    """Write the certificate and key to files. curl sends the certificate."""
    files = {"--cert": certificates_pem([certificate]), "--key": key_pem(key)}
    for option, content in files.items():
        (est.folder / f"{stem}{option}").write_bytes(content)
    return tuple(word for option in files for word in (option, str(est.folder / f"{stem}{option}")))


def test_ca_certificates_are_public(est, alpha):
    # In the form in which a user reads it.
    der = filtered(["openssl", "base64", "-d"], est.ask("alpha", "cacerts").body)
    found = x509.load_pem_x509_certificates(filtered(["openssl", "pkcs7", "-inform", "DER", "-print_certs"], der))
    made = [alpha.authorities.root, alpha.authorities.issuing]
    assert [item.public_bytes(Encoding.DER) for item in found] == [row.certificate_der for row in made]


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        ("ecdsa-p256", ["id-ecPublicKey", "prime256v1", "ecdsa-with-SHA256"]),
        ("ecdsa-p384", ["id-ecPublicKey", "secp384r1", "ecdsa-with-SHA384"]),
        ("rsa-3072", ["rsaEncryption", "sha256WithRSAEncryption"]),
    ],
)
def test_csr_attributes_cover_every_key_type(kind, names):
    shown = filtered(["openssl", "asn1parse", "-inform", "DER"], encode_key_attributes(kind)).decode()
    assert [line.split(":")[-1] for line in shown.splitlines() if "OBJECT" in line] == names
    assert ("INTEGER           :0C00" in shown) == (kind == "rsa-3072")


def test_csr_attributes_request_a_p256_key(est):
    reply = est.ask("alpha", "csrattrs")
    assert (reply.status, reply.headers["content-type"]) == (200, "application/csrattrs")
    assert base64.b64decode(reply.body) == encode_key_attributes("ecdsa-p256")


def test_secret_gets_one_certificate_in_any_format(est, app_engine, alpha):
    issuer = x509.load_der_x509_certificate(alpha.authorities.issuing.certificate_der)
    for name, encode, more in (
        ("lines", base64.encodebytes, ()),
        ("one-line", base64.b64encode, ()),
        ("der", bytes, ()),
        ("pem", lambda der: x509.load_der_x509_csr(der).public_bytes(Encoding.PEM), ()),
        ("header", base64.encodebytes, ("-H", "Content-Transfer-Encoding: base64")),
    ):
        token, der = make_secret(app_engine, alpha, name=name).token, request_der("laptop")
        reply = est.ask("alpha", "simpleenroll", "-u", f"{name}:{token.secret}", *more, body=encode(der))
        (certificate,) = certificates_in(reply)
        assert "smime-type=certs-only" in reply.headers["content-type"]
        assert certificate.public_key() == x509.load_der_x509_csr(der).public_key()
        certificate.verify_directly_issued_by(issuer)
    again = est.ask("alpha", "simpleenroll", "-u", f"{name}:{token.secret}", body=encoded())
    assert again.status == 401
    assert again.text == "The secret is not accepted. Ask your administrator for a new secret.\n"
    assert last_refusal(alpha, app_engine).after == {"why": "used"}
    # The server certificate is one of them.
    assert signed(app_engine, alpha) == 6


def test_missing_secret_is_rejected(est, app_engine, alpha):
    for authorization in (None, "Basic", "Basic !!!", "Basic YQ==", "Bearer abc", "Basic " + "a" * 5000):
        more = ("-H", f"Authorization: {authorization}") if authorization else ()
        reply = est.ask("alpha", "simpleenroll", *more, body=encoded())
        assert (reply.status, reply.headers["www-authenticate"]) == (401, 'Basic realm="enrolment", charset="UTF-8"')
        assert "one-time secret" in reply.text
    assert signed(app_engine, alpha) == 1


def test_invalid_request_keeps_the_secret_valid(est, app_engine, alpha):
    token = make_secret(app_engine, alpha, common_name="kiosk").token
    forged = bytearray(request_der("kiosk"))
    forged[-3] ^= 1
    for body, complaint in (
        (b"", "not a readable PKCS#10"),
        (b"\xff" * 20, "not base64"),
        (b"Zm9v", "not a readable PKCS#10"),
        (base64.b64encode(forged), "not signed with the key that it contains"),
        (encoded(common_name="other"), "requires 'kiosk'"),
        (encoded(common_name="kiosk", key=ec.generate_private_key(ec.SECP256K1())), "must be ECDSA on P-256"),
    ):
        reply = est.ask("alpha", "simpleenroll", *user(token), body=body)
        assert (reply.status, reply.headers["content-type"]) == (400, "text/plain; charset=utf-8")
        assert complaint in reply.text
    assert est.ask("alpha", "simpleenroll", *user(token), body=b"A" * 70_000).status == 413
    assert signed(app_engine, alpha) == 1
    assert est.ask("alpha", "simpleenroll", *user(token), body=encoded(common_name="kiosk")).status == 200


def test_certificate_is_renewed_with_a_new_key(est, app_engine, alpha):
    device = enrolled(est, app_engine, alpha)
    body = encoded(common_name="laptop")
    (renewed,) = certificates_in(est.ask("alpha", "simplereenroll", *device.shown, body=body))
    assert renewed.subject == device.certificate.subject
    assert renewed.public_key() != device.certificate.public_key()
    same = est.ask("alpha", "simplereenroll", *device.shown, body=encoded(common_name="laptop", key=device.key))
    assert (same.status, "Create a new key" in same.text) == (409, True)


def test_certificate_cannot_enrol_and_secret_cannot_renew(est, app_engine, alpha):
    device = enrolled(est, app_engine, alpha)
    assert est.ask("alpha", "simpleenroll", *device.shown, body=encoded(common_name="laptop")).status == 401
    token = make_secret(app_engine, alpha).token
    reply = est.ask("alpha", "simplereenroll", *user(token), body=encoded(common_name="laptop"))
    assert reply.status == 403
    assert "A renewal needs the old certificate" in reply.text
    assert signed(app_engine, alpha) == 2


def test_revoked_or_expired_certificate_is_not_renewed(est, app_engine, alpha):
    device, days = enrolled(est, app_engine, alpha), timedelta(days=1)
    serial = f"{device.certificate.serial_number:x}"
    with session_scope(TenantScope(alpha.tenant_id), engine=app_engine) as session:
        named = {"actor": ACTOR, "tenant_id": alpha.tenant_id, "now": alpha.now}
        certificates.revoke_certificate(session, serial=serial, **named)
        expired = alpha.issue(session, not_before=alpha.now - 30 * days, not_after=alpha.now - days)
    shown = on_disk(est, "expired", expired.certificate, expired.key)
    for files, complaint in ((device.shown, "The certificate is revoked"), (shown, "has expired")):
        reply = est.ask("alpha", "simplereenroll", *files, body=encoded(common_name="laptop"))
        assert reply.status == 403
        assert complaint in reply.text
        assert last_refusal(alpha, app_engine).action == "certificate.refuse-renewal"
    assert signed(app_engine, alpha) == 3


@pytest.mark.parametrize("of_root", [False, True])
def test_successor_renews_certificate_of_a_retired_authority(est, app_engine, alpha, of_root):
    device = enrolled(est, app_engine, alpha)
    scope = TenantScope(alpha.tenant_id)
    with session_scope(scope, engine=app_engine) as session:
        plan = plan_rollover(session, tenant_id=alpha.tenant_id, signing=SIGNING, of_root=of_root)
    with session_scope(scope, engine=app_engine) as session:
        execute_rollover(session, plan, actor=ACTOR, signing=SIGNING, now=alpha.now)
    first = certificates_in(est.ask("alpha", "simplereenroll", *device.shown, body=encoded(common_name="laptop")))[0]
    assert first.issuer != device.certificate.issuer
    handed = certificates_in(est.ask("alpha", "cacerts"))
    assert {first.issuer, device.certificate.issuer} <= {authority.subject for authority in handed}
    with session_scope(scope, engine=app_engine) as session:
        network = describe_network(session, tenant_id=alpha.tenant_id, now=alpha.now)
    assert len(network.anchors) == (2 if of_root else 1)
    assert all(anchor.issuer == anchor.subject for anchor in network.anchors)


def test_certificate_of_another_tenant_is_rejected(est, app_engine, alpha, platform):
    """TLS accepts certificates of a new tenant at once, and the application accepts them only for that tenant."""
    bravo = certify(app_engine, make_tenant(app_engine, platform, "bravo").id)
    device = enrolled(est, app_engine, bravo, slug="bravo")

    def answer() -> CurlReply | None:
        try:
            return est.ask("alpha", "simplereenroll", *device.shown, body=encoded(common_name="laptop"))
        except subprocess.CalledProcessError:
            return None

    refused = until(answer, "TLS believes the new tenant's authorities")
    assert refused.status == 403
    assert "did not issue this certificate" in refused.text
    assert est.ask("bravo", "simplereenroll", *device.shown, body=encoded(common_name="laptop")).status == 200


def test_unknown_client_fails_tls_and_unknown_tenant_gets_404(est, alpha):
    key, pem = est.folder / "stranger.key", est.folder / "stranger.pem"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    subprocess.run([*command, "-subj", "/CN=x", "-keyout", key, "-out", pem], check=True, capture_output=True)
    with pytest.raises(subprocess.CalledProcessError):
        est.ask("alpha", "simplereenroll", "--cert", str(pem), "--key", str(key), body=encoded())
    assert est.ask("nobody", "cacerts").status == 404


def test_suspended_tenant_looks_like_an_unknown_one(est, app_engine, alpha):
    with session_scope(PlatformScope(), engine=app_engine) as session:
        tenants.suspend_tenant(session, actor=ACTOR, tenant_id=alpha.tenant_id)
    replies = [est.ask(slug, "cacerts") for slug in ("alpha", "nobody")]
    assert [(reply.status, reply.text) for reply in replies] == [(404, "Unknown enrolment URL.\n")] * 2


def test_guesses_of_secrets_are_rate_limited(est, app_engine, alpha):
    token = make_secret(app_engine, alpha).token
    for _ in range(10):
        assert est.ask("alpha", "simpleenroll", "-u", f"{token.public_id}:guess", body=encoded()).status == 401
    reply = est.ask("alpha", "simpleenroll", *user(token), body=encoded())
    assert (reply.status, int(reply.headers["retry-after"]) > 500) == (429, True)


def test_new_server_certificate_is_used_without_restart(est):
    before = ssl.get_server_certificate(("127.0.0.1", est.port))
    renewed = load_settings({"ADMIT_VAR_DIR": str(est.folder), "ADMIT_ENROLMENT_URL": "https://est.alpha.example"})
    assert ensure_certificate(renewed.enrolment_key_file.parent, renewed, owner=None)
    until(lambda: ssl.get_server_certificate(("127.0.0.1", est.port)) != before, "the new certificate is shown")
    assert est.ask("alpha", "csrattrs", "--resolve", f"est.alpha.example:{est.port}:127.0.0.1").status == 200


_WORDS = ("", "A", "MIIB", "\n", "-----BEGIN CERTIFICATE REQUEST-----", "=", "\xff")
_GOOD = base64.b64encode(request_der("laptop"))


@given(st.binary(max_size=200) | st.lists(st.sampled_from(_WORDS)).map(lambda words: "".join(words).encode("latin-1")))
def test_any_body_is_parsed_or_rejected(body):
    read_or_refused(body)


@given(st.integers(0, len(_GOOD) - 1), st.binary(max_size=4), st.integers(0, 6))
def test_damaged_request_is_parsed_or_rejected(at, put, cut):
    read_or_refused(_GOOD[:at] + put + _GOOD[at + cut :])
    der = base64.b64decode(_GOOD)
    read_or_refused(der[: at % len(der)] + put + der[at % len(der) + cut :])


def read_or_refused(body: bytes) -> None:
    with suppress(RequestNotAllowed, KeyNotAllowed):
        assert read_signing_request(read_body(body)).public_key


@given(st.text(max_size=60) | st.binary(max_size=60).map(lambda raw: "Basic " + base64.b64encode(raw).decode()))
def test_any_authorization_is_parsed_or_rejected(header):
    scope = {"type": "http", "headers": [(b"authorization", header.encode("utf-8", "replace"))]}
    try:
        name, secret = est_routes.read_credentials(Request(scope))
    except SecretNeeded:
        return
    assert isinstance(name, str)
    assert isinstance(secret, str)


def test_name_of_the_radius_server_is_rejected(est, app_engine, alpha):
    token = make_secret(app_engine, alpha).token
    server = "radius.alpha.admit.example"
    below = base64.encodebytes(request_der("kiosk", x509.DNSName(f"x.{server}")))
    for body in (encoded(common_name=server), below):
        reply = est.ask("alpha", "simpleenroll", *user(token), body=body)
        assert (reply.status, "RADIUS servers" in reply.text) == (400, True)
    assert signed(app_engine, alpha) == 1
    assert est.ask("alpha", "simpleenroll", *user(token), body=encoded(common_name="kiosk")).status == 200


def pki(*arguments: str | Path, data: bytes = b"") -> bytes:
    done = subprocess.run(["pki", *map(str, arguments)], input=data, capture_output=True, timeout=30)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


def test_strongswan_enrols_and_renews(est, app_engine, alpha):
    """`strongSwan`'s EST client is a strict independent implementation."""
    url = f"https://127.0.0.1:{est.port}/alpha"
    token = make_secret(app_engine, alpha).token
    first, second, held = est.folder / "first.key", est.folder / "second.key", est.folder / "first.pem"
    for key in (first, second):
        key.write_bytes(pki("--gen", "--type", "ecdsa", "--size", "256", "--outform", "pem"))
    pki("--estca", "--url", url, "--cacert", est.ca, "--caout", est.folder / "ca", "--outform", "pem")
    found = {path.read_bytes() for path in est.folder.glob("ca*") if path.is_file()}
    assert {x509.load_pem_x509_certificate(pem).subject.rfc4514_string() for pem in found} == {
        x509.load_der_x509_certificate(row.certificate_der).subject.rfc4514_string()
        for row in (alpha.authorities.root, alpha.authorities.issuing)
    }
    authorities = [word for path in sorted(est.folder.glob("ca*")) for word in ("--cacert", path)]
    common = ("--est", "--url", url, "--cacert", est.ca, *authorities, "--outform", "pem")
    wanted = pki("--req", "--type", "ecdsa", "--in", first, "--dn", "CN=laptop", "--outform", "pem")
    held.write_bytes(pki(*common, "--userpass", f"{token.public_id}:{token.secret}", data=wanted))
    again = pki("--req", "--type", "ecdsa", "--in", second, "--dn", "CN=laptop", "--outform", "pem")
    renewed = x509.load_pem_x509_certificate(pki(*common, "--cert", held, "--key", first, data=again))
    assert renewed.subject == x509.load_pem_x509_certificate(held.read_bytes()).subject
