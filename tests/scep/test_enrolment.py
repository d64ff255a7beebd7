"""Enrolment by SCEP over HTTP: a certificate, or a rejection that stores nothing."""

import base64
from datetime import timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding
from sqlalchemy import select, update

from nac.kit.clock import utc_now
from nac.kit.db import TenantScope, session_scope
from nac.models import AuditEntry, Certificate
from pki.cms_envelopes import AES_128, AES_256, read_envelope
from pki.names import read_common_name, read_sans
from tests.enrolment.conftest import uses
from tests.scep.client import BAD_CERT_ID, BAD_MESSAGE_CHECK, BAD_REQUEST, CERT_POLL, Device
from tests.scep.conftest import issued, make_challenge, revoke


@pytest.mark.parametrize("cipher", [AES_128, AES_256])
def test_device_with_a_challenge_gets_a_certificate(server, challenge, alpha, cipher):
    device = Device("laptop")
    reply = server.enrol(device, challenge, cipher=cipher, sans=[x509.DNSName("laptop.corp.example")])
    assert (reply.status, reply.transaction_id, reply.recipient_nonce) == ("0", device.transaction_id, device.nonce)
    assert read_envelope(reply.content).cipher == cipher
    certificate = reply.certificate(device)
    certificate.verify_directly_issued_by(x509.load_der_x509_certificate(alpha.authorities.issuing.certificate_der))
    assert certificate.public_key() == device.key.public_key()
    assert read_common_name(certificate.subject) == "laptop"
    assert [str(item) for item in read_sans(certificate)] == ["dns:laptop.corp.example"]


def test_replies_are_signed_by_the_tenants_ra(server, challenge, alpha):
    reply = server.enrol(Device(), challenge)
    assert reply.signer == server.registration()
    assert isinstance(reply.signer.public_key(), rsa.RSAPublicKey)
    known = {alpha.authorities.root.certificate_der, alpha.authorities.issuing.certificate_der}
    handed_out = {certificate.public_bytes(Encoding.DER) for certificate in server.authorities()}
    assert handed_out == known | {reply.signer.public_bytes(Encoding.DER)}


def test_ra_certificate_is_created_once_and_audited(server, app_engine, alpha):
    assert server.registration() == server.registration()
    with session_scope(TenantScope(alpha.tenant_id), engine=app_engine) as session:
        rows = session.scalars(select(Certificate).where(Certificate.profile == "scep-ra")).all()
        entries = session.scalars(select(AuditEntry).where(AuditEntry.actor == "scep").order_by(AuditEntry.id)).all()
    assert [entry.action for entry in entries] == ["certificate.intend", "certificate.issue"]
    assert {entry.target for entry in entries} == {row.serial.hex() for row in rows}
    assert len(rows) == 1


@pytest.mark.parametrize(
    ("days_left", "days_old", "is_renewed"), [(29, 700, True), (4, 10, True), (31, 700, False), (6, 9, False)]
)
def test_ra_is_renewed_in_time_and_the_old_one_still_works(
    server, app_engine, alpha, challenge, days_left, days_old, is_renewed
):
    old = server.registration()
    with session_scope(TenantScope(alpha.tenant_id), engine=app_engine) as session:
        ends, began = utc_now() + timedelta(days=days_left), utc_now() - timedelta(days=days_old)
        query = update(Certificate).where(Certificate.profile == "scep-ra")
        session.execute(query.values(not_after=ends, not_before=began))
    new = server.registration()
    assert (new != old) is is_renewed
    assert server.registration() == new
    reply = server.ask(Device().enrol(old, challenge))
    assert (reply.status, reply.signer) == ("0", old)


def test_revoked_ra_rejects_requests(server, app_engine, alpha, challenge):
    old = server.registration()
    revoke(app_engine, alpha, old)
    assert server.registration() != old
    assert server.ask(Device().enrol(old, challenge)).fail_info == BAD_MESSAGE_CHECK


def test_get_requests_and_the_legacy_path_are_accepted(server, challenge):
    message = base64.b64encode(Device().enrol(server.registration(), challenge)).decode()
    query = f"operation=PKIOperation&message={message.replace('/', '%2F').replace('=', '%3D')}"
    # An unescaped plus sign is decoded as a space.
    reply = server.http.get(f"{server.path}/pkiclient.exe?{query}")
    assert (reply.status_code, reply.headers["content-type"]) == (200, "application/x-pki-message")


def test_capabilities_match_the_implementation(server):
    reply = server.http.get(server.path, params={"operation": "GetCACaps"})
    assert reply.headers["content-type"].startswith("text/plain")
    assert {"AES", "POSTPKIOperation", "Renewal", "SCEPStandard", "SHA-256", "SHA-512"} <= set(reply.text.split())
    assert not {"DES3", "SHA-1"} & set(reply.text.split())


def test_repeated_transaction_gets_the_same_certificate(server, challenge, app_engine, alpha):
    device = Device()
    first = server.obtain(device, challenge)
    assert server.obtain(device, challenge) == first
    assert (issued(app_engine, alpha), uses(app_engine, alpha)) == (1, [1])
    revoke(app_engine, alpha, first)
    assert server.enrol(device, challenge).fail_info == BAD_REQUEST


def test_key_of_another_transaction_is_rejected(server, challenge, app_engine, alpha):
    device = Device()
    server.obtain(device, challenge)
    second = make_challenge(app_engine, alpha)
    reply = server.enrol(Device(key=device.key), second)
    assert (reply.status, reply.fail_info) == ("2", BAD_REQUEST)
    assert "key" in reply.text
    assert sorted(uses(app_engine, alpha)) == [0, 1]


def test_transaction_id_with_another_key_is_a_new_transaction(server, challenge, app_engine, alpha):
    device = Device()
    first = server.obtain(device, challenge)
    thief = Device(transaction_id=device.transaction_id)
    assert server.enrol(thief, challenge).fail_info == BAD_REQUEST
    second = server.obtain(thief, make_challenge(app_engine, alpha))
    assert second.serial_number != first.serial_number


def test_poll_returns_the_certificate_to_its_key_holder(server, challenge):
    device = Device()
    first = server.obtain(device, challenge)
    registration = server.registration()
    reply = server.ask(device.message(b"who", registration, kind=CERT_POLL))
    assert reply.certificate(device) == first
    stranger = Device(transaction_id=device.transaction_id)
    assert server.ask(stranger.message(b"who", registration, kind=CERT_POLL)).fail_info == BAD_CERT_ID
