"""Renewals by SCEP, signed with the certificate to renew."""

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from sqlalchemy import func, select

from nac.kit.db import TenantScope, session_scope
from nac.models import AuditEntry
from pki.names import read_sans
from tests.scep.client import BAD_REQUEST, Device, rsa_key
from tests.scep.conftest import issued, revoke


def test_renewal_keeps_the_names_and_has_a_new_key(server, challenge, app_engine, alpha):
    device = Device("laptop")
    first = server.obtain(device, challenge, sans=[x509.DNSName("laptop.corp.example")])
    renewing = Device("laptop", key=device.key, identity=first)
    key = rsa_key()
    message = renewing.renew(server.registration(), key)
    second = server.ask(message).certificate(renewing)
    assert second.public_key() == key.public_key()
    assert (second.subject, read_sans(second)) == (first.subject, read_sans(first))
    # A request that is sent again gets the first renewal.
    assert server.ask(message).certificate(renewing) == second
    assert issued(app_engine, alpha) == 2


def test_renewal_of_a_revoked_or_foreign_certificate_is_rejected(
    server, other_server, challenge, app_engine, alpha, bravo
):
    device = Device("laptop")
    renewing = Device("laptop", key=device.key, identity=server.obtain(device, challenge))
    foreign = other_server.ask(renewing.renew(other_server.registration(), rsa_key()))
    revoke(app_engine, alpha, renewing.identity)
    revoked = server.ask(renewing.renew(server.registration(), rsa_key()))
    assert [(reply.status, reply.fail_info) for reply in (foreign, revoked)] == [("2", BAD_REQUEST)] * 2
    assert (issued(app_engine, alpha), issued(app_engine, bravo)) == (1, 0)


def test_renewal_with_another_name_is_rejected(server, challenge, app_engine, alpha):
    device = Device("laptop")
    renewing = Device("laptop", key=device.key, identity=server.obtain(device, challenge))
    reply = server.ask(renewing.renew(server.registration(), rsa_key(), "director"))
    assert (reply.status, reply.fail_info, issued(app_engine, alpha)) == ("2", BAD_REQUEST, 1)


def test_renewal_by_a_forged_copy_of_a_certificate_is_rejected(server, challenge):
    first = server.obtain(Device("laptop"), challenge)
    key = rsa_key()
    builder = x509.CertificateBuilder(first.issuer, first.subject, key.public_key(), first.serial_number)
    builder = builder.not_valid_before(first.not_valid_before_utc).not_valid_after(first.not_valid_after_utc)

    forged = builder.sign(key, hashes.SHA256())
    reply = server.ask(Device("laptop", key=key, identity=forged).renew(server.registration(), rsa_key()))
    assert (reply.status, reply.fail_info) == ("2", BAD_REQUEST)


def test_failing_renewals_are_rate_limited_and_not_all_logged(server, app_engine, alpha):
    message = Device("stranger").renew(server.registration(), rsa_key())
    for _ in range(10):
        assert server.ask(message).status == "2"
    for _ in range(3):
        reply = server.http.post(server.path, params={"operation": "PKIOperation"}, content=message)
        assert reply.status_code == 429
    with session_scope(TenantScope(alpha.tenant_id), engine=app_engine) as session:
        refused = select(func.count()).select_from(AuditEntry).where(AuditEntry.action == "certificate.refuse-renewal")
        assert session.scalar(refused) == 10
