"""Rejected SCEP requests: the failInfo of each. Nothing is stored."""

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from sqlalchemy import select

from nac.kit.db import PlatformScope, TenantScope, session_scope
from nac.models import AuditEntry, Tenant
from nac.tenancy.tenants import service as tenants
from pki.cms_envelopes import AES_128, read_envelope, seal_envelope
from pki.names import read_common_name
from tests.enrolment.conftest import uses
from tests.factories.tenancy import ACTOR
from tests.scep.client import (
    BAD_ALG,
    BAD_MESSAGE_CHECK,
    BAD_REQUEST,
    GET_CERT,
    GET_CRL,
    Device,
    rsa_key,
    signing_request,
)
from tests.scep.conftest import issued, make_challenge


def test_wrong_challenge_is_rejected_and_nothing_is_stored(server, challenge, app_engine, alpha):
    for wrong in ("", "guessed", challenge[:-1] + ("a" if challenge[-1] != "a" else "b")):
        reply = server.enrol(Device(), wrong)
        assert (reply.status, reply.fail_info, reply.content) == ("2", BAD_REQUEST, b"")
        assert "challenge" in reply.text
    assert (issued(app_engine, alpha), uses(app_engine, alpha)) == (0, [0])
    with session_scope(TenantScope(alpha.tenant_id), engine=app_engine) as session:
        query = select(AuditEntry).where(AuditEntry.action == "enrolment-secret.refuse").order_by(AuditEntry.id)
        entries = session.scalars(query.order_by(AuditEntry.id)).all()
    public_id = challenge.split("-")[0]
    assert [(entry.target, entry.after) for entry in entries] == [
        ("-", {"why": "unknown"}),
        ("-", {"why": "unknown"}),
        (public_id, {"why": "wrong-secret"}),
    ]


def test_guessing_is_rate_limited(server):
    registration = server.registration()
    device = Device()
    for _ in range(10):
        assert server.ask(device.enrol(registration, "guessed")).fail_info == BAD_REQUEST
    reply = server.http.post(server.path, content=device.enrol(registration, "guessed"))
    assert (reply.status_code, reply.json()["code"]) == (429, "too-many-guesses")
    assert int(reply.headers["retry-after"]) > 500


def test_used_challenge_is_rejected(server, challenge, app_engine, alpha):
    server.obtain(Device(), challenge)
    reply = server.enrol(Device(), challenge)
    assert (reply.status, reply.fail_info) == ("2", BAD_REQUEST)
    assert (issued(app_engine, alpha), uses(app_engine, alpha)) == (1, [1])


@pytest.mark.parametrize("sans", [(), (x509.DNSName("radius.alpha.admit.example"),)], ids=["subject", "SAN"])
def test_name_of_the_radius_server_is_rejected(server, challenge, app_engine, alpha, sans):
    device = Device("kiosk" if sans else "radius.alpha.admit.example")
    assert server.enrol(device, challenge, sans=sans).status == "2"
    assert issued(app_engine, alpha) == 0
    assert server.enrol(Device("kiosk"), challenge).status == "0"


def test_challenge_of_another_tenant_or_kind_is_rejected(server, other_server, challenge, app_engine, alpha):
    assert other_server.enrol(Device(), challenge).fail_info == BAD_REQUEST
    est = make_challenge(app_engine, alpha, kind="est")
    assert server.enrol(Device(), est).fail_info == BAD_REQUEST
    assert uses(app_engine, alpha) == [0, 0]


def test_failed_issue_keeps_the_challenge_valid(server, app_engine, alpha):
    challenge = make_challenge(app_engine, alpha, common_name="printer")
    reply = server.enrol(Device("laptop"), challenge)
    assert (reply.fail_info, uses(app_engine, alpha)) == (BAD_REQUEST, [0])
    assert "'printer'" in reply.text
    assert read_common_name(server.obtain(Device("printer"), challenge).subject) == "printer"


def test_envelope_for_another_tenants_authority_is_rejected(server, other_server, challenge):
    reply = server.ask(Device().enrol(other_server.registration(), challenge))
    assert (reply.status, reply.fail_info) == ("2", BAD_MESSAGE_CHECK)
    assert "GetCACert" in reply.text


def test_replayed_envelope_of_another_device_is_rejected(server, challenge, app_engine, alpha):
    """An attacker who recorded a request gets neither the certificate nor the contents of the request."""
    envelope = seal_envelope(signing_request(rsa_key(), "victim", challenge), server.registration(), AES_128)
    assert server.ask(Device().signed(envelope)).fail_info == BAD_MESSAGE_CHECK
    assert uses(app_engine, alpha) == [0]


def test_errors_inside_an_envelope_look_alike(server, challenge):
    """Wrong RSA padding, wrong CBC padding, no request and an invalid signature get one equal reply (no oracle)."""
    device, registration = Device(), server.registration()
    request = signing_request(device.key, "laptop", challenge)
    sound = seal_envelope(request, registration, AES_128)
    parsed = read_envelope(sound)
    key_at, text_at = sound.index(parsed.recipients[0].encrypted_key), sound.index(parsed.ciphertext)

    def flipped(at: int) -> bytes:
        return sound[:at] + bytes((sound[at] ^ 1,)) + sound[at + 1 :]

    spoilt = {
        "rsa": flipped(key_at + 100),
        "cbc padding": flipped(text_at + len(parsed.ciphertext) - 17),
        "no request": seal_envelope(b"hello", registration, AES_128),
        "signature": seal_envelope(request[:-1] + bytes((request[-1] ^ 1,)), registration, AES_128),
        "nothing": seal_envelope(b"", registration, AES_128),
    }
    answers = {
        name: (reply.status, reply.fail_info, reply.text)
        for name, reply in ((name, server.ask(device.signed(envelope))) for name, envelope in spoilt.items())
    }
    assert len(set(answers.values())) == 1, answers
    assert answers["rsa"][:2] == ("2", BAD_MESSAGE_CHECK)


def test_weak_or_unsupported_key_is_rejected(server, challenge, app_engine, alpha):
    weak = Device(key=rsa.generate_private_key(public_exponent=65537, key_size=1024))  # noqa: S505 -- to be refused
    assert server.enrol(weak, challenge).fail_info == BAD_ALG
    assert issued(app_engine, alpha) == 0


def test_message_with_an_invalid_signature_is_rejected(server, challenge):
    device, registration = Device(), server.registration()
    # The request inside is for another key than the message.
    other = device.message(signing_request(ec.generate_private_key(ec.SECP256R1()), "laptop", challenge), registration)
    message = device.enrol(registration, challenge)
    for spoilt in (other, message[:-1] + bytes((message[-1] ^ 1,))):
        assert server.ask(spoilt).fail_info == BAD_MESSAGE_CHECK


def test_unsupported_operations_are_rejected(server):
    registration = server.registration()
    for kind in (GET_CERT, GET_CRL):
        reply = server.ask(Device().message(b"which", registration, kind=kind))
        assert (reply.status, reply.fail_info) == ("2", BAD_REQUEST)


def test_invalid_message_is_a_problem_response(server):
    for method, query, body, status in (
        ("GET", "", b"", 400),
        ("GET", "operation=GetNextCACert", b"", 400),
        ("GET", "operation=PKIOperation&message=%00", b"", 400),
        ("GET", "operation=PKIOperation&message=AAAA", b"", 400),
        ("POST", "operation=PKIOperation", b"", 400),
        ("POST", "operation=GetCACert", b"", 400),
        ("POST", "operation=PKIOperation", b"x" * 65_537, 413),
        ("PUT", "operation=PKIOperation", b"", 405),
    ):
        reply = server.http.request(method, f"{server.path}?{query}", content=body)
        assert (reply.status_code, reply.headers["content-type"]) == (status, "application/problem+json"), query


def test_unknown_address_does_not_exist(http, alpha):
    for slug in ("nobody", "%00", "alpha%2F..", "Ä"):
        assert http.get(f"/scep/{slug}?operation=GetCACert").status_code == 404


def test_suspended_tenant_rejects_enrolment(server, app_engine, alpha):
    with session_scope(PlatformScope(), engine=app_engine) as session:
        tenants.suspend_tenant(session, actor=ACTOR, tenant_id=alpha.tenant_id)
        assert session.scalar(select(Tenant.status).where(Tenant.id == alpha.tenant_id)) == "suspended"
    assert server.http.get(server.path, params={"operation": "GetCACert"}).status_code == 404
