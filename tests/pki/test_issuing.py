from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID

from pki.bundles import certificates_pem
from pki.errors import IssuerNotAllowed, KeyNotAllowed, NameNotAllowed, PkiError, ValidityNotAllowed
from pki.issuance import Issuer, issue, issue_root, key_identifier
from pki.keys import generate_key
from pki.names import San, read_sans, subject_name
from pki.profiles import PROFILES
from pki.serials import random_serial, serial_bytes
from tests.pki.conftest import Chain
from tests.pki.openssl import answer, verify

_DAY = timedelta(days=1)


@pytest.mark.parametrize(
    ("profile", "sans", "good_for", "bad_for"),
    [
        ("eap-server", [San("dns", "radius.alpha.admit.example")], "sslserver", "sslclient"),
        (
            "eap-client-user",
            [San("email", "eve@alpha.example"), San("upn", "eve@älpha.example")],
            "sslclient",
            "sslserver",
        ),
        ("eap-client-device", [San("dns", "laptop.alpha.example"), San("uri", "urn:x:1")], "sslclient", "sslserver"),
        ("radsec-server", [San("dns", "radsec.alpha.admit.example")], "sslserver", "sslclient"),
        ("radsec-nas", [San("dns", "switch-1.alpha.example")], "sslclient", "sslserver"),
        ("ocsp-signer", [], "ocsphelper", "sslclient"),
        ("scep-ra", [], "any", "sslclient"),
    ],
)
def test_issued_chain_verifies_only_for_its_purpose(chain, tmp_path, profile, sans, good_for, bad_for):
    certificate = chain.issue(profile, "somebody", *sans)
    files = chain.write(tmp_path, certificate)
    good = verify(good_for, *files)
    assert good.returncode == 0, good.stderr
    assert b"unsuitable certificate purpose" in verify(bad_for, *files).stderr
    assert read_sans(certificate) == tuple(sans)


@pytest.mark.parametrize("kind", ["ecdsa-p256", "ecdsa-p384", "rsa-2048"])
def test_every_key_type_gives_a_chain_that_verifies(chain, tmp_path, kind):
    certificate = chain.issue("eap-client-device", "printer", key=generate_key(kind))
    assert verify("sslclient", *chain.write(tmp_path, certificate)).returncode == 0


def test_fields_follow_rfc_5280(chain):
    certificate = chain.issue("eap-client-device", "laptop 1", San("dns", "laptop.alpha.example"))
    critical = {extension.oid._name: extension.critical for extension in certificate.extensions}
    assert critical == {
        "basicConstraints": True,
        "keyUsage": True,
        "subjectKeyIdentifier": False,
        "authorityKeyIdentifier": False,
        "extendedKeyUsage": False,
        "subjectAltName": False,
    }
    extensions = certificate.extensions
    assert certificate.version is x509.Version.v3
    assert certificate.issuer == chain.issuing.certificate.subject
    identifier = extensions.get_extension_for_class(x509.AuthorityKeyIdentifier).value.key_identifier
    assert identifier == key_identifier(chain.issuing.certificate)
    assert list(extensions.get_extension_for_class(x509.ExtendedKeyUsage).value) == [ExtendedKeyUsageOID.CLIENT_AUTH]
    usage = extensions.get_extension_for_class(x509.KeyUsage).value
    assert usage.digital_signature
    assert not any((usage.key_cert_sign, usage.crl_sign, usage.key_encipherment, usage.content_commitment))
    # The certificate begins one hour ago and ends two years from now. Its last second is included (4.1.2.5).
    now = chain.now.replace(microsecond=0)
    assert certificate.not_valid_before_utc == now - timedelta(hours=1)
    assert certificate.not_valid_after_utc == now + 730 * _DAY - timedelta(seconds=1)


@pytest.mark.parametrize(
    ("profile", "kind", "enciphers"),
    [
        ("eap-client-device", "rsa-2048", True),
        ("eap-server", "rsa-2048", True),
        ("eap-client-device", "ecdsa-p256", False),
        ("ocsp-signer", "rsa-2048", False),
    ],
)
def test_rsa_keys_for_tls_have_key_encipherment(chain, profile, kind, enciphers):
    """SCEP responses are encrypted to the device's key (RFC 8894 3.2)."""
    names = [San("dns", "radius.alpha.example")] if profile == "eap-server" else []
    certificate = chain.issue(profile, "x", *names, key=generate_key(kind))
    usage = certificate.extensions.get_extension_for_class(x509.KeyUsage).value
    assert (usage.digital_signature, usage.key_encipherment) == (True, enciphers)


def test_authorities_have_basic_and_path_constraints(chain):
    root, issuing = (
        authority.extensions.get_extension_for_class(x509.BasicConstraints)
        for authority in (chain.root.certificate, chain.issuing.certificate)
    )
    assert (root.value.ca, root.value.path_length, root.critical) == (True, None, True)
    assert (issuing.value.ca, issuing.value.path_length, issuing.critical) == (True, 0, True)
    # The digital signature bit is needed for OCSP responses that the issuing authority signs itself.
    shown = answer("x509", "-noout", "-ext", "keyUsage", data=certificates_pem([chain.issuing.certificate]))
    assert "Digital Signature, Certificate Sign, CRL Sign" in shown


@pytest.mark.parametrize(
    ("profile", "shown"),
    [
        ("ocsp-signer", ["Digital Signature\n", "OCSP Signing", "OCSP No Check"]),
        ("scep-ra", ["Digital Signature, Key Encipherment\n", "CMC Registration Authority"]),
    ],
)
def test_delegated_certificates_have_only_their_own_usage(chain, profile, shown):
    certificate = chain.issue(profile, "helper", key=generate_key(PROFILES[profile].key))
    text = answer("x509", "-noout", "-text", data=certificates_pem([certificate]))
    assert [part for part in shown if part not in text] == []
    assert ("OCSP No Check" in text) == (profile == "ocsp-signer")


def test_serials_have_sixteen_octets_and_never_repeat():
    serials = {random_serial() for _ in range(2000)}
    assert len(serials) == 2000
    assert {len(serial_bytes(serial)) for serial in serials} == {16}
    assert all(0 < serial_bytes(serial)[0] < 0x80 for serial in serials)
    assert len({serial_bytes(serial)[0] for serial in serials}) > 100


@pytest.mark.parametrize("serial", [0, -1, 1 << 159])
def test_serial_out_of_range_is_rejected(chain, serial):
    with pytest.raises(ValueError, match="20 octets"):
        issue(
            PROFILES["eap-client-device"],
            public_key=generate_key().public_key(),
            subject=subject_name("x"),
            issuer=chain.issuing,
            now=chain.now,
            serial=serial,
        )


def test_certificate_ends_no_later_than_its_issuer(chain):
    last = chain.issuing.certificate.not_valid_after_utc
    near_the_end = replace(chain, now=last - 10 * _DAY)
    assert near_the_end.issue("eap-client-device", "late").not_valid_after_utc == last
    assert near_the_end.issue("eap-client-device", "late", not_after=last).not_valid_after_utc == last
    with pytest.raises(ValidityNotAllowed, match="issuer's end"):
        near_the_end.issue("eap-client-device", "late", not_after=last + timedelta(seconds=1))


def test_expired_and_future_certificates_can_be_made(chain, tmp_path):
    expired = chain.issue("eap-client-device", "old", not_before=chain.now - 2 * _DAY, not_after=chain.now - _DAY)
    assert b"certificate has expired" in verify("sslclient", *chain.write(tmp_path, expired)).stderr
    future = chain.issue("eap-client-device", "early", not_before=chain.now + _DAY)
    assert b"certificate is not yet valid" in verify("sslclient", *chain.write(tmp_path, future)).stderr
    assert future.not_valid_after_utc == future.not_valid_before_utc + 730 * _DAY - timedelta(seconds=1)


def _issue_with(chain: Chain, **changes: Any) -> x509.Certificate:
    arguments: dict[str, Any] = {
        "profile": PROFILES["eap-client-device"],
        "public_key": generate_key().public_key(),
        "subject": subject_name("laptop"),
        "issuer": chain.issuing,
        "now": chain.now,
        "serial": random_serial(),
    } | changes
    return issue(arguments.pop("profile"), **arguments)


_WEAK_RSA = rsa.generate_private_key(65537, 1024)  # noqa: S505 - the weakness is what is tested
_REFUSALS: list[tuple[Callable[[Chain], dict[str, Any]], type[PkiError], str]] = [
    (lambda c: {"profile": PROFILES["eap-server"]}, NameNotAllowed, "needs an alternative name of kind dns"),
    (lambda c: {"sans": [San("email", "a@b.example")]}, NameNotAllowed, "allows these kinds: dns, uri"),
    (lambda c: {"sans": [San("dns", f"h{n}.example") for n in range(21)]}, NameNotAllowed, "at most 20"),
    (lambda c: {"sans": [San("dns", "not a name")]}, NameNotAllowed, "not a host name"),
    (lambda c: {"public_key": ed25519.Ed25519PrivateKey.generate().public_key()}, KeyNotAllowed, "must be ECDSA"),
    (lambda c: {"public_key": _WEAK_RSA.public_key()}, KeyNotAllowed, "1024 bits"),
    (lambda c: {"public_key": rsa.generate_private_key(3, 2048).public_key()}, KeyNotAllowed, "exponent"),
    (lambda c: {"public_key": ec.generate_private_key(ec.SECP256K1()).public_key()}, KeyNotAllowed, "P-256"),
    (lambda c: {"profile": PROFILES["issuing"]}, IssuerNotAllowed, "path length 0"),
    (lambda c: {"now": c.now + 20 * 365 * _DAY}, IssuerNotAllowed, "not valid now"),
    (lambda c: {"not_before": c.now, "not_after": c.now}, ValidityNotAllowed, "before it begins"),
    (lambda c: {"not_after": c.now + 800 * _DAY}, ValidityNotAllowed, "at most 730 days"),
    (lambda c: {"not_after": c.now.replace(tzinfo=None)}, ValidityNotAllowed, "time zone"),
]


@pytest.mark.parametrize(("change", "error", "message"), _REFUSALS, ids=[message for _, _, message in _REFUSALS])
def test_request_outside_the_profile_is_rejected_before_signing(chain, change, error, message):
    with pytest.raises(error, match=message):
        _issue_with(chain, **change(chain))


def test_client_certificate_cannot_issue(chain):
    key = generate_key()
    client = Issuer(chain.issue("eap-client-device", "laptop", key=key), key)
    with pytest.raises(IssuerNotAllowed, match="no authority"):
        _issue_with(chain, issuer=client)


def test_issuer_with_another_key_is_rejected_without_showing_it(chain):
    with pytest.raises(IssuerNotAllowed, match="does not belong"):
        Issuer(chain.issuing.certificate, generate_key())
    assert "key" not in repr(chain.issuing).replace("public_key", "")


def test_only_an_authority_can_be_self_signed(chain):
    with pytest.raises(IssuerNotAllowed, match="cannot be self-signed"):
        issue_root(
            PROFILES["eap-server"], key=generate_key(), subject=subject_name("x"), now=chain.now, serial=random_serial()
        )
