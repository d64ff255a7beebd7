"""Uploads of authority files, valid or not."""

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, pkcs7
from hypothesis import given, settings
from hypothesis import strategies as st

from nac.kit.clock import utc_now
from pki import uploads
from pki.errors import UploadNotReadable
from pki.uploads import compute_key_identifier, has_signed, is_root, list_mistakes, read_certificates
from tests.certificates.uploads import authority, pem
from tests.run_depth import examples

NOW = utc_now()
ROOT = authority("Root", NOW)
ISSUING = authority("Issuing", NOW, by=ROOT)
CERTIFICATES = [each.certificate for each in (ROOT, ISSUING)]
GOOD = {
    "PEM": pem(ROOT, ISSUING),
    "DER": ROOT.certificate.public_bytes(Encoding.DER),
    "PKCS7 PEM": pkcs7.serialize_certificates(CERTIFICATES, Encoding.PEM),
    "PKCS7 DER": pkcs7.serialize_certificates(CERTIFICATES, Encoding.DER),
}


def fuzz(test):
    # The library warns about invalid serial numbers, and about BER that is not DER.
    test = pytest.mark.filterwarnings("ignore::cryptography.utils.CryptographyDeprecationWarning")(test)
    test = pytest.mark.filterwarnings("ignore:PKCS#7 certificates could not be parsed as DER:UserWarning")(test)
    return settings(max_examples=examples(200), deadline=None)(test)


def test_text_around_certificates_is_ignored():
    assert read_certificates(b"subject=/CN=Root\n" + GOOD["PEM"] + b"\nthe end\n") == CERTIFICATES


def test_file_over_the_limits_is_rejected(monkeypatch):
    with pytest.raises(UploadNotReadable, match="maximum is 262144"):
        read_certificates(b"x" * (uploads.MAX_FILE_BYTES + 1))
    monkeypatch.setattr(uploads, "MAX_CERTIFICATES", 1)
    with pytest.raises(UploadNotReadable, match="2 certificates"):
        read_certificates(GOOD["PEM"])


def test_signers_are_matched_to_certificates():
    twin = authority("Root", NOW)
    assert is_root(ROOT.certificate)
    assert not is_root(ISSUING.certificate)
    assert has_signed(ROOT.certificate, ISSUING.certificate)
    assert not has_signed(twin.certificate, ISSUING.certificate)
    # The previous key certified this authority. It has the root's name and is no root.
    assert not is_root(authority("Root", NOW, by=ROOT).certificate)


@fuzz
@given(data=st.data(), kind=st.sampled_from(sorted(GOOD)))
def test_changed_file_is_parsed_or_rejected(data, kind):
    changed = bytearray(GOOD[kind])
    for _ in range(data.draw(st.integers(1, 4))):
        changed[data.draw(st.integers(0, len(changed) - 1))] = data.draw(st.integers(0, 255))
    parse_upload(bytes(changed))


@fuzz
@given(st.binary(max_size=300))
def test_random_file_is_parsed_or_rejected(octets):
    parse_upload(octets)


def parse_upload(octets):
    try:
        found = read_certificates(octets)
    except UploadNotReadable:
        return
    for certificate in found:
        assert all(message.endswith(".") for message in list_mistakes(certificate, now=NOW))
        assert isinstance(is_root(certificate), bool)
        assert len(compute_key_identifier(certificate)) == 20
