"""Enrolment: allowed names and keys, and the fields that a renewal may change."""

from collections import Counter
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from sqlalchemy import Engine

from nac.certificates import service as certificates
from nac.certificates.enrolment import certificate_enrolment
from nac.certificates.enrolment.errors import NameRefused, RenewalKeepsKey, RenewalRefused
from nac.certificates.errors import CertificateRefused, DuplicateKey
from nac.certificates.service import IssuedCertificate
from nac.kit.db import TenantScope, session_scope
from nac.kit.errors import AdmitError
from nac.models import Tenant
from pki.names import read_sans
from pki.signing_requests import SigningRequest
from tests.enrolment.conftest import at_once, enrol, make_secret, request, signed
from tests.factories.certificates import SIGNING, Certified
from tests.factories.tenancy import ACTOR


def renew(
    app_engine: Engine, of: Certified, shown: x509.Certificate, asked: SigningRequest, **changes: Any
) -> IssuedCertificate:
    now = changes.get("now", of.now)
    with session_scope(TenantScope(of.tenant_id), engine=app_engine) as session:
        old = certificate_enrolment.require_renewable(session, tenant_id=of.tenant_id, shown=shown, now=now)
        return certificate_enrolment.renew(session, actor=ACTOR, old=old, request=asked, signing=SIGNING, now=now)


def names(issued: IssuedCertificate) -> tuple[str, list[str]]:
    return issued.common_name, [str(item) for item in read_sans(issued.certificate)]


def dns(*values: str) -> list[x509.GeneralName]:
    return [x509.DNSName(value) for value in values]


@pytest.mark.parametrize(
    ("bound", "asked", "expected"),
    [
        ({}, ("laptop", "a.example"), ("laptop", ["dns:a.example"])),
        ({}, ("", "a.example"), ("a.example", ["dns:a.example"])),
        ({"common_name": "kiosk"}, ("kiosk",), ("kiosk", [])),
        ({"common_name": "kiosk"}, ("",), ("kiosk", [])),
        (
            {"sans": ["dns:a.example", "dns:b.example"]},
            ("B.example", "B.example"),
            ("b.example", ["dns:a.example", "dns:b.example"]),
        ),
        ({"sans": ["dns:a.example"]}, ("",), ("a.example", ["dns:a.example"])),
        ({"sans": ["dns:a.example"]}, ("any", "a.example"), "requires 'a.example'"),
        ({"common_name": "kiosk"}, ("laptop",), "requires 'kiosk'"),
        (
            {"common_name": "kiosk"},
            ("kiosk", "a.example"),
            "not permit dns:a.example. The secret permits no alternative names",
        ),
        ({"sans": ["dns:a.example"]}, ("", "a.example", "c.example"), "not permit dns:c.example"),
        ({}, ("",), "has no name"),
    ],
)
def test_names_are_open_unless_the_secret_sets_them(app_engine, alpha, bound, asked, expected):
    secret = make_secret(app_engine, alpha, **bound)
    common_name, *sans = asked
    if isinstance(expected, str):
        with pytest.raises(NameRefused, match=expected):
            enrol(app_engine, alpha, secret, request(common_name, *dns(*sans)))
        # The server certificate is one of them.
        assert signed(app_engine, alpha) == 1
    else:
        assert names(enrol(app_engine, alpha, secret, request(common_name, *dns(*sans)))) == expected


def test_name_outside_the_profile_is_rejected(app_engine, alpha):
    secret = make_secret(app_engine, alpha)
    with pytest.raises(CertificateRefused, match="profile eap-client-device allows these kinds: dns, uri"):
        enrol(app_engine, alpha, secret, request("laptop", x509.RFC822Name("eve@alpha.example")))
    assert signed(app_engine, alpha) == 1


def test_key_is_certified_once_per_tenant(app_engine, alpha, bravo):
    key = ec.generate_private_key(ec.SECP256R1())
    enrol(app_engine, alpha, make_secret(app_engine, alpha), request("one", key=key))
    with pytest.raises(DuplicateKey):
        enrol(app_engine, alpha, make_secret(app_engine, alpha), request("two", key=key))
    enrol(app_engine, bravo, make_secret(app_engine, bravo), request("three", key=key))


def test_concurrent_requests_for_one_key_get_one_certificate(app_engine, alpha):
    asked, secrets = request("laptop"), [make_secret(app_engine, alpha) for _ in range(3)]
    outcomes = at_once(*(partial(enrol, app_engine, alpha, secret, asked) for secret in secrets))
    assert Counter(map(type, outcomes)) == {DuplicateKey: 2, IssuedCertificate: 1}


def test_renewal_keeps_names_profile_and_holder(app_engine, alpha):
    secret = make_secret(app_engine, alpha, common_name="kiosk", sans=["dns:kiosk.example"])
    first = enrol(app_engine, alpha, secret, request("kiosk"))
    second = renew(app_engine, alpha, first.certificate, request("kiosk"))
    assert names(second) == names(first) == ("kiosk", ["dns:kiosk.example"])
    assert second.certificate.subject == first.certificate.subject
    assert second.serial != first.serial
    third = renew(app_engine, alpha, second.certificate, request("", *dns("kiosk.example")))
    assert names(third) == names(first)


@pytest.mark.parametrize(
    ("asked", "complaint"),
    [
        (("other",), "the certificate has 'kiosk'"),
        (("kiosk", "other.example"), "differ from the names in the certificate"),
    ],
)
def test_renewal_with_another_name_is_rejected(app_engine, alpha, asked, complaint):
    first = enrol(app_engine, alpha, make_secret(app_engine, alpha), request("kiosk", *dns("kiosk.example")))
    with pytest.raises(NameRefused, match=complaint):
        renew(app_engine, alpha, first.certificate, request(asked[0], *dns(*asked[1:])))
    assert signed(app_engine, alpha) == 2


def test_renewal_with_the_same_key_needs_a_tenant_setting(app_engine, alpha):
    key, other = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    first = enrol(app_engine, alpha, make_secret(app_engine, alpha), request("kiosk", key=key))
    enrol(app_engine, alpha, make_secret(app_engine, alpha), request("laptop", key=other))
    with pytest.raises(RenewalKeepsKey):
        renew(app_engine, alpha, first.certificate, request("kiosk", key=key))
    with session_scope(TenantScope(alpha.tenant_id), engine=app_engine) as session:
        session.get_one(Tenant, alpha.tenant_id).renewal_keeps_key = True
    second = renew(app_engine, alpha, first.certificate, request("kiosk", key=key))
    assert renew(app_engine, alpha, second.certificate, request("kiosk", key=key)).serial != second.serial
    with pytest.raises(DuplicateKey):
        renew(app_engine, alpha, second.certificate, request("kiosk", key=other))


def test_only_own_valid_client_certificates_are_renewed(app_engine, alpha, bravo):
    issued = enrol(app_engine, alpha, make_secret(app_engine, alpha), request("kiosk"))
    shown, serial = issued.certificate, issued.serial.hex()
    server = x509.load_der_x509_certificate(alpha.authorities.server.certificate_der or b"")

    def refused(of: Certified, certificate: x509.Certificate, complaint: str, **changes: Any) -> None:
        with pytest.raises(RenewalRefused, match=complaint):
            renew(app_engine, of, certificate, request("kiosk"), **changes)

    refused(bravo, shown, "did not issue this certificate")
    refused(alpha, server, "Holders cannot renew")
    refused(alpha, shown, "has expired", now=shown.not_valid_after_utc + timedelta(seconds=1))
    for change, complaint in (
        (certificates.suspend_certificate, "is suspended"),
        (certificates.revoke_certificate, "is revoked"),
    ):
        with session_scope(TenantScope(alpha.tenant_id), engine=app_engine) as session:
            change(session, actor=ACTOR, tenant_id=alpha.tenant_id, serial=serial, now=alpha.now)
        refused(alpha, shown, complaint)


def test_renewal_by_a_copied_serial_number_is_rejected(app_engine, alpha, bravo):
    """The certificate of another issuer has the serial number and names of a certificate of this tenant."""
    issued = enrol(app_engine, alpha, make_secret(app_engine, alpha), request("kiosk"))
    key = ec.generate_private_key(ec.SECP256R1())
    real = issued.certificate
    builder = x509.CertificateBuilder(
        *(real.issuer, real.subject, key.public_key(), real.serial_number, real.not_valid_before_utc),
        *(real.not_valid_after_utc, list(real.extensions)),
    )
    copied = builder.sign(key, real.signature_hash_algorithm)
    with pytest.raises(AdmitError, match="did not issue this certificate"):
        renew(app_engine, alpha, copied, request("kiosk"))
