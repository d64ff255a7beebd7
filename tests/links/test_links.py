"""Links to certificates.

A preview changes nothing, a sent form issues the certificate, and the download opens with its password.
"""

import base64
import html
import logging
import plistlib
import re
from dataclasses import replace
from typing import Any
from unittest.mock import Mock

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, pkcs12
from sqlalchemy import Engine, func, select

from api.enrolment import main as enrolment_app
from api.public import main as public
from nac.certificates.enrolment import service as enrolment
from nac.certificates.enrolment.service import EnrolmentSecretText
from nac.certificates.issuance import issue_server
from nac.kit.db import TenantScope, session_scope
from nac.kit.errors import DatabaseUnavailable
from nac.kit.settings import load_settings
from nac.models import AuditEntry, Certificate
from tests.api.app_server import serve_app
from tests.enrolment.conftest import make_secret, request_der
from tests.factories.certificates import SIGNING, Certified
from tests.factories.tenancy import ACTOR
from tests.pki.openssl import openssl

P12, APPLE, CSR = {"form": "p12"}, {"form": "apple"}, {"form": "csr"}


def link(app_engine: Engine, alpha: Certified, **changes: Any) -> EnrolmentSecretText:
    arguments: dict[str, Any] = {"kind": "link", "common_name": "Eve's <phone>"}
    return make_secret(app_engine, alpha, **arguments | changes).token


def path(token: EnrolmentSecretText) -> str:
    return f"/enrol/{token.reveal()}"


def signed(app_engine: Engine, alpha: Certified) -> int:
    with session_scope(TenantScope(alpha.tenant_id), engine=app_engine) as session:
        return session.scalar(select(func.count()).select_from(Certificate)) or 0


def pem(**named: Any) -> bytes:
    return x509.load_der_x509_csr(request_der(**named)).public_bytes(Encoding.PEM)


def assert_private(reply: httpx.Response) -> None:
    assert reply.headers["cache-control"] == "no-store"
    assert reply.headers["referrer-policy"] == "same-origin"
    assert "default-src 'none'" in reply.headers["content-security-policy"]


def test_preview_changes_nothing_and_names_the_owner(client, app_engine, alpha):
    token = link(app_engine, alpha)
    for _ in range(3):
        reply = client.get(path(token))
        assert reply.status_code == 200
        assert_private(reply)
        assert "Eve&#39;s &lt;phone&gt;" in reply.text
        assert "You can use this link once" in reply.text
        assert token.secret not in reply.text
        assert "<script" not in reply.text
    assert signed(app_engine, alpha) == 1


@pytest.mark.parametrize("legacy", [{}, {"legacy": "yes"}])
def test_bundle_is_downloaded_once_with_its_password(client, app_engine, alpha, legacy):
    token = link(app_engine, alpha)
    reply = client.post(path(token), data=P12 | legacy)
    assert reply.status_code == 200
    assert_private(reply)
    found = re.search(r'download="([^"]+)" href="data:application/x-pkcs12;base64,([^"]+)"', reply.text)
    password = re.search(r"<code>([^<]+)</code>", reply.text)
    assert found is not None
    assert password is not None
    assert found[1] == "Eve-s-phone.p12"
    assert re.fullmatch(r"([a-z2-9]{5}-){3}[a-z2-9]{5}", password[1])
    bundle = base64.b64decode(found[2])
    opened = pkcs12.load_pkcs12(bundle, password[1].encode())
    assert opened.cert is not None
    assert opened.cert.certificate.subject.rfc4514_string().startswith("CN=Eve's \\<phone\\>")
    assert len(opened.additional_certs) == 2
    shown = openssl("pkcs12", "-info", "-in", "/dev/stdin", "-passin", f"pass:{password[1]}", "-nodes", data=bundle)
    assert (b"3-KeyTripleDES" in shown.stderr) == bool(legacy)
    for again in (client.get(path(token)), client.post(path(token), data=P12)):
        assert again.status_code == 404
        assert "was already used" in again.text
        assert_private(again)
    assert signed(app_engine, alpha) == 2


@pytest.mark.parametrize("ssid", ["Office", None])
def test_apple_profile_has_identity_root_and_its_network(client, app_engine, alpha, ssid):
    reply = client.post(path(link(app_engine, alpha, **{"ssid": ssid} if ssid else {})), data=APPLE)
    assert reply.headers["content-type"] == "application/x-apple-aspen-config"
    assert reply.headers["content-disposition"] == 'attachment; filename="Eve-s-phone.mobileconfig"'
    assert_private(reply)
    payloads = {payload["PayloadType"]: payload for payload in plistlib.loads(reply.content)["PayloadContent"]}
    identity = payloads.pop("com.apple.security.pkcs12")
    # iOS and macOS releases without AES support in PKCS#12 report a wrong password.
    assert b"\x2a\x86\x48\x86\xf7\x0d\x01\x0c\x01\x03" in identity["PayloadContent"]
    assert pkcs12.load_pkcs12(identity["PayloadContent"], identity["Password"].encode()).key is not None
    root = payloads.pop("com.apple.security.root")
    assert root["PayloadContent"] == alpha.authorities.root.certificate_der
    assert [payload["SSID_STR"] for payload in payloads.values()] == ([ssid] if ssid else [])


@pytest.mark.parametrize("as_file", [True, False])
def test_csr_is_signed_from_file_or_text(client, app_engine, alpha, as_file):
    asked = pem(common_name="")
    more = {"files": {"file": ("a.csr", asked)}} if as_file else {}
    form = CSR | {"text": "" if as_file else asked.decode()}
    reply = client.post(path(link(app_engine, alpha)), data=form, **more)
    assert reply.status_code == 200, reply.text
    certificate, issuing = x509.load_pem_x509_certificates(reply.content)
    assert certificate.public_key() == x509.load_pem_x509_csr(asked).public_key()
    certificate.verify_directly_issued_by(issuing)


def test_repeated_csr_gets_the_first_response_again(client, app_engine, alpha):
    token = link(app_engine, alpha)
    asked = CSR | {"text": pem(common_name="").decode()}
    first, again = (client.post(path(token), data=asked) for _ in range(2))
    assert first.content == again.content
    x509.load_pem_x509_certificates(again.content)
    for other in (CSR | {"text": pem(common_name="").decode()}, CSR | {"text": "hello"}, P12, APPLE):
        assert client.post(path(token), data=other).status_code == 404
    assert client.get(path(token)).status_code == 404
    assert signed(app_engine, alpha) == 2


@pytest.mark.parametrize(
    ("sent", "complaint"),
    [
        ({"data": CSR | {"text": "hello"}}, "not a readable PKCS#10"),
        ({"data": CSR | {"text": pem(common_name="other").decode()}}, "the secret requires"),
        ({"data": {"form": "exe"}}, "No format is selected"),
        ({"content": b"form=p12"}, "The Content-Type must be"),
    ],
)
def test_error_is_shown_on_the_page_and_uses_nothing(client, app_engine, alpha, sent, complaint):
    token = link(app_engine, alpha)
    reply = client.post(path(token), **sent)
    assert reply.status_code == 400
    assert complaint in html.unescape(reply.text)
    assert "You can still use the link" in reply.text
    assert signed(app_engine, alpha) == 1
    assert client.post(path(token), data=P12).status_code == 200


def test_invalid_links_all_look_the_same(client, app_engine, alpha):
    good = link(app_engine, alpha)
    revoked = link(app_engine, alpha)
    with session_scope(TenantScope(alpha.tenant_id), engine=app_engine) as session:
        enrolment.revoke_secret(session, actor=ACTOR, tenant_id=alpha.tenant_id, name=revoked.public_id)
    est = make_secret(app_engine, alpha).token
    guessed = EnrolmentSecretText(good.public_id, EnrolmentSecretText.make().secret)
    bodies = set()
    known = [path(each) for each in (revoked, est, guessed, EnrolmentSecretText.make())]
    for each in (*known, "/enrol/x", "/enrol/" + "a" * 5000):
        reply = client.get(each)
        assert reply.status_code == 404
        assert_private(reply)
        bodies.add(reply.text)
    assert len(bodies) == 1
    with session_scope(TenantScope(alpha.tenant_id), engine=app_engine) as session:
        entries = session.scalars(select(AuditEntry).where(AuditEntry.action == "enrolment-secret.refuse")).all()
    assert sorted(entry.after["why"] for entry in entries if entry.after) == ["revoked", "wrong-kind", "wrong-secret"]


def test_guessing_links_is_rate_limited(client, app_engine, alpha):
    for _ in range(10):
        assert client.get(path(EnrolmentSecretText.make())).status_code == 404
    reply = client.get(path(link(app_engine, alpha)))
    assert (reply.status_code, int(reply.headers["retry-after"]) > 500) == (429, True)


def test_token_is_in_no_log(public_app, client, app_engine, alpha, caplog):
    """A failure of the database is logged without the path."""
    token = link(app_engine, alpha)
    caplog.set_level(logging.INFO)
    public_app.state.guess_limiter = None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("api.link_pages.require_link_tenant", Mock(side_effect=DatabaseUnavailable("gone")))
        assert client.get(path(token)).status_code == 503
    ours = "".join(record.getMessage() for record in caplog.records if record.name == "admit.api")
    assert "/enrol/{token}" in ours
    assert token.secret not in ours


@pytest.mark.parametrize(
    ("public_url", "leads_to"),
    [
        ("http://127.0.0.1:8461", "http://127.0.0.1:8461"),
        ("https://nac.example", "https://nac.example"),
        ("http://nac.example", "https://127.0.0.1:8462"),
    ],
)
def test_links_use_plain_http_only_on_this_machine(public_url, leads_to):
    found = load_settings({"ADMIT_VAR_DIR": "/nonexistent", "ADMIT_PUBLIC_URL": public_url})
    assert found.link_url == leads_to


def test_anonymous_caller_with_a_costly_form_gets_a_page(client, app_engine, alpha):
    headers = {"Content-Type": "multipart/form-data; boundary=b"}
    body = b"--b\r\nContent-Disposition: form-data" + b"(" * 60_000 + b"; name=a\r\n\r\nx\r\n--b--"
    reply = client.post(path(link(app_engine, alpha)), content=body, headers=headers)
    assert reply.status_code == 400
    assert "A part of the form cannot be read." in reply.text


@pytest.mark.parametrize("make", [public.create_app, enrolment_app.create_app], ids=["public", "enrolment"])
def test_browser_gets_an_error_page_devices_a_status(make, public_settings):
    with serve_app(make(public_settings)) as client:
        for where in ("/", "/enrol", "/enrol/", "/nowhere"):
            to_browser, to_program = client.get(where, headers={"Accept": "text/html"}), client.get(where)
            assert (to_browser.status_code, to_program.status_code) == (404, 404)
            assert_private(to_browser)
            assert "<p>There is no page at this address.</p>" in to_browser.text
            assert "<a href" not in to_browser.text
            assert to_program.headers["content-type"] == "application/problem+json"


def test_rate_limited_browser_may_retry(public_settings):
    settings = replace(public_settings, public_requests_per_second=1)
    with serve_app(public.create_app(settings)) as client:
        answers = [client.get("/enrol/some?a=b", headers={"Accept": "text/html"}) for _ in range(20)]
    (refused, *_) = (each for each in answers if each.status_code == 429)
    assert '<a href="/enrol/some?a=b">Try again</a>' in refused.text
    assert int(refused.headers["retry-after"]) > 0


def test_name_taken_by_a_radius_server_is_rejected(client, app_engine, alpha):
    token = link(app_engine, alpha, common_name="kiosk.example")
    with session_scope(TenantScope(alpha.tenant_id), engine=app_engine) as session:
        given = {"tenant_id": alpha.tenant_id, "signing": SIGNING, "now": alpha.now}
        issue_server(session, actor=ACTOR, dns_names=["kiosk.example"], **given)
    for form in (P12, APPLE, CSR | {"text": pem(common_name="kiosk.example").decode()}):
        reply = client.post(path(token), data=form)
        assert (reply.status_code, "RADIUS servers" in reply.text) == (400, True), form
    assert signed(app_engine, alpha) == 2
