from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from pki.crl import MAX_CRL_NUMBER, REVOCATION_REASONS, Revocation, build_crl
from pki.errors import IssuerNotAllowed
from pki.issuance import Issuer, issue_root
from pki.keys import generate_key
from pki.names import subject_name
from pki.profiles import PROFILES
from pki.serials import random_serial, serial_bytes
from tests.pki.openssl import answer
from tests.pki.status_answers import HOUR

_WEEK = timedelta(days=7)


@pytest.mark.parametrize("kind", ["ecdsa-p256", "ecdsa-p384", "rsa-2048"])
def test_openssl_verifies_crls_of_every_key_type(tmp_path, chain, kind):
    key = generate_key(kind)
    root = issue_root(PROFILES["root"], key=key, subject=subject_name("R"), now=chain.now, serial=random_serial())
    entries = [(serial_bytes(random_serial()), Revocation(chain.now, reason)) for reason in REVOCATION_REASONS]
    crl = build_crl(Issuer(root, key), entries, number=255, this_update=chain.now, next_update=chain.now + _WEEK)
    (tmp_path / "crl").write_bytes(crl)
    (tmp_path / "root").write_bytes(root.public_bytes(Encoding.PEM))
    told = answer("crl", "-in", str(tmp_path / "crl"), "-CAfile", str(tmp_path / "root"), "-noout", "-text")
    assert told.count("Serial Number:") == len(REVOCATION_REASONS)
    assert "X509v3 CRL Number: \n                255" in told
    assert "Certificate Hold" in told


def test_crl_times_numbers_and_serials_round_trip(chain):
    serials = [1, 0x7F, 0x80, 0xFF, 1 << 158]
    at = datetime(2050, 1, 1, tzinfo=UTC)
    entries = [
        (serial_bytes(serial), Revocation(at - HOUR * (n % 2), "superseded")) for n, serial in enumerate(serials)
    ]
    made = build_crl(chain.issuing, entries, number=MAX_CRL_NUMBER, this_update=chain.now, next_update=at)
    crl = x509.load_der_x509_crl(made)
    assert [entry.serial_number for entry in crl] == serials
    # RFC 5280 4.1.2.5: UTCTime until 2049, GeneralizedTime from 2050.
    assert [entry.revocation_date_utc for entry in crl] == [at, at - HOUR, at, at - HOUR, at]
    assert crl.next_update_utc == at
    assert crl.extensions.get_extension_for_class(x509.CRLNumber).value.crl_number == MAX_CRL_NUMBER
    identifier = crl.extensions.get_extension_for_class(x509.AuthorityKeyIdentifier).value
    subject = chain.issuing.certificate.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    assert identifier.key_identifier == subject.digest


def test_crl_of_fifty_thousand_entries_round_trips(chain):
    serials = [serial_bytes(random_serial()) for _ in range(50_000)]
    entries = [(serial, Revocation(chain.now, "keyCompromise")) for serial in serials]
    made = build_crl(chain.issuing, entries, number=1, this_update=chain.now, next_update=chain.now + _WEEK)
    crl = x509.load_der_x509_crl(made)
    assert len(crl) == 50_000
    found = crl.get_revoked_certificate_by_serial_number(int.from_bytes(serials[-1]))
    assert found is not None


def test_oversized_number_and_unfit_issuer_are_rejected(chain):
    times = {"this_update": chain.now, "next_update": chain.now + _WEEK}
    with pytest.raises(ValueError, match="20 octets"):
        build_crl(chain.issuing, [], number=MAX_CRL_NUMBER + 1, **times)
    key = generate_key()
    certificate = chain.issue("eap-client-device", "laptop", key=key)
    with pytest.raises(IssuerNotAllowed, match="may not sign CRLs"):
        build_crl(Issuer(certificate, key), [], number=1, **times)
