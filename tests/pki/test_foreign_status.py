"""CRLs and OCSP responses of external authorities. Admit accepts only valid, complete and current data."""

from datetime import timedelta
from functools import partial

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509 import ocsp
from cryptography.x509.oid import ExtendedKeyUsageOID
from hypothesis import given, settings
from hypothesis import strategies as st

from nac.kit.clock import utc_now
from pki import external_status
from pki.errors import StatusNotUsable
from pki.external_status import build_ocsp_request, read_crl, read_ocsp
from tests.certificates.uploads import authority
from tests.pki.crls import SERIAL, make_crl
from tests.run_depth import examples

NOW = utc_now().replace(microsecond=0)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
CA = authority("Corp CA", NOW)
TWIN = authority("Corp CA", NOW)
# No test needs the certificate itself, because OCSP responses identify it by hashes.
LEAF = authority("laptop", NOW, by=CA, ca=False)
LEAF_SERIAL = LEAF.certificate.serial_number.to_bytes((LEAF.certificate.serial_number.bit_length() + 7) // 8)
TRY_LATER = ocsp.OCSPResponseStatus.TRY_LATER
DELEGATE_USAGE = ((x509.ExtendedKeyUsage([ExtendedKeyUsageOID.OCSP_SIGNING]), False),)


crl = partial(make_crl, by=CA, begin=NOW - HOUR, end=NOW + DAY)


def point(**parts):
    kinds = ("only_contains_user_certs", "only_contains_ca_certs", "only_contains_attribute_certs", "indirect_crl")
    usual = dict.fromkeys(kinds, False) | {"relative_name": None, "only_some_reasons": None}
    usual["full_name"] = [x509.UniformResourceIdentifier("http://x.example/")]
    return x509.IssuingDistributionPoint(**usual | parts), True


def test_valid_crl_is_parsed():
    for encoding in (Encoding.DER, Encoding.PEM):
        found = read_crl(crl(encoding=encoding), CA.certificate, now=NOW)
        assert (found.number, found.this_update, found.next_update) == (7, NOW - HOUR, NOW + DAY)
        assert found.serials == {SERIAL}
    assert read_crl(crl(point(only_contains_user_certs=True)), CA.certificate, now=NOW).serials == {SERIAL}


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (lambda: crl(by=TWIN), "not signed by the authority"),
        (lambda: crl(by=authority("Other", NOW)), "from another authority"),
        (lambda: crl(begin=NOW - 2 * DAY, end=NOW - DAY), "The status expired at"),
        (lambda: crl(begin=NOW + HOUR), "in the future"),
        (lambda: crl((x509.DeltaCRLIndicator(3), True)), "delta CRL"),
        (lambda: crl(point(indirect_crl=True)), "partial"),
        (lambda: crl(point(only_contains_ca_certs=True)), "partial"),
        (lambda: crl(point(only_some_reasons=frozenset([x509.ReasonFlags.key_compromise]))), "partial"),
        (
            lambda: crl((x509.UnrecognizedExtension(x509.ObjectIdentifier("1.2.3.4"), b"\5\0"), True)),
            "critical extension 1.2.3.4",
        ),
        (
            lambda: crl(entry=x509.CertificateIssuer([x509.DirectoryName(CA.certificate.subject)])),
            "An entry of the CRL",
        ),
        (lambda: b"", "Invalid certificate revocation list"),
        (lambda: b"<html>not found</html>", "Invalid certificate revocation list"),
        (lambda: crl()[:-1], "Invalid certificate revocation list"),
    ],
)
def test_unreliable_crl_is_rejected(data, says):
    with pytest.raises(StatusNotUsable, match=says):
        read_crl(data(), CA.certificate, now=NOW)


def test_crl_over_the_limits_is_rejected(monkeypatch):
    monkeypatch.setattr(external_status, "MAX_REVOKED", 1)
    with pytest.raises(StatusNotUsable, match="2 entries"):
        read_crl(crl(serials=(b"\1", b"\2")), CA.certificate, now=NOW)
    monkeypatch.setattr(external_status, "MAX_CRL_BYTES", 100)
    with pytest.raises(StatusNotUsable, match="maximum is 100"):
        read_crl(crl(), CA.certificate, now=NOW)


GOOD, REVOKED = ocsp.OCSPCertStatus.GOOD, ocsp.OCSPCertStatus.REVOKED


def answer(
    *, by=CA, about=LEAF, issuer=CA, status=GOOD, begin=NOW - HOUR, end=NOW + HOUR, certificates=(), algorithm=None
):
    builder = ocsp.OCSPResponseBuilder().add_response(
        cert=about.certificate,
        issuer=issuer.certificate,
        algorithm=algorithm or hashes.SHA1(),  # noqa: S303
        cert_status=status,
        this_update=begin,
        next_update=end,
        revocation_time=begin if status is REVOKED else None,
        revocation_reason=None,
    )
    builder = builder.responder_id(ocsp.OCSPResponderEncoding.HASH, by.certificate)
    if certificates:
        builder = builder.certificates([each.certificate for each in certificates])
    return builder.sign(by.key, hashes.SHA256()).public_bytes(Encoding.DER)


def read(data):
    return read_ocsp(data, CA.certificate, LEAF_SERIAL, now=NOW)


@pytest.mark.parametrize("algorithm", [hashes.SHA1(), hashes.SHA256()])  # noqa: S303 -- names them
def test_response_signed_by_the_authority_is_accepted(algorithm):
    assert read(answer(algorithm=algorithm)) == (False, NOW - HOUR, NOW + HOUR)
    assert read(answer(status=REVOKED)).revoked


def by_delegate(*, by=CA, **changes):
    delegate = authority("Responder", NOW, by=by, ca=False, extensions=DELEGATE_USAGE, **changes)
    return answer(by=delegate, certificates=(delegate,))


def test_response_signed_by_a_delegated_responder_is_accepted():
    assert not read(by_delegate()).revoked


def test_response_without_an_end_is_valid_for_a_short_while():
    assert read(answer(end=None)).until - NOW <= timedelta(minutes=10)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (lambda: answer(by=TWIN), "not signed by the authority"),
        # The authority certified the signer, but not for OCSP signing.
        (lambda: answer(by=LEAF, certificates=(LEAF,)), "not signed by the authority"),
        (lambda: by_delegate(by=TWIN), "not signed by the authority"),
        (lambda: by_delegate(not_before=NOW - 2 * DAY, not_after=NOW - DAY), "not signed by the authority"),
        (lambda: answer(about=authority("other", NOW, by=CA, ca=False)), "for another certificate"),
        (lambda: answer(issuer=TWIN), "for another certificate"),
        (lambda: answer(status=ocsp.OCSPCertStatus.UNKNOWN), "does not know"),
        (lambda: answer(begin=NOW - DAY, end=NOW - HOUR), "The status expired at"),
        (lambda: answer(begin=NOW + HOUR, end=NOW + DAY), "in the future"),
        (
            lambda: ocsp.OCSPResponseBuilder.build_unsuccessful(TRY_LATER).public_bytes(Encoding.DER),
            "error: try_later",
        ),
        (lambda: b"", "Invalid OCSP response"),
        (lambda: answer()[:-1], "Invalid OCSP response"),
        (lambda: b"0" * (64 * 1024 + 1), "maximum is 65536"),
    ],
)
def test_unreliable_response_is_rejected(data, says):
    with pytest.raises(StatusNotUsable, match=says):
        read(data())


def test_other_tools_can_parse_the_ocsp_request():
    asked = ocsp.load_der_ocsp_request(build_ocsp_request(CA.certificate, LEAF_SERIAL))
    expected = ocsp.OCSPRequestBuilder().add_certificate(LEAF.certificate, CA.certificate, hashes.SHA1()).build()  # noqa: S303
    assert asked.public_bytes(Encoding.DER) == expected.public_bytes(Encoding.DER)


fuzz = settings(max_examples=examples(300), deadline=None)
_GOOD = {"list": crl(), "answer": answer()}


@pytest.mark.filterwarnings("ignore::cryptography.utils.CryptographyDeprecationWarning")
@fuzz
@given(data=st.data(), kind=st.sampled_from(["list", "answer"]))
def test_changed_octets_never_give_another_status(data, kind):
    good = _GOOD[kind]
    changed = bytearray(good)
    for _ in range(data.draw(st.integers(1, 4))):
        changed[data.draw(st.integers(0, len(changed) - 1))] = data.draw(st.integers(0, 255))
    reader = (lambda octets: read_crl(octets, CA.certificate, now=NOW)) if kind == "list" else read
    try:
        found = reader(bytes(changed))
    except StatusNotUsable:
        return
    assert found == reader(good)


@pytest.mark.filterwarnings("ignore::cryptography.utils.CryptographyDeprecationWarning")
@fuzz
@given(octets=st.binary(max_size=200))
def test_random_octets_are_rejected(octets):
    for reader in (lambda given: read_crl(given, CA.certificate, now=NOW), read):
        with pytest.raises(StatusNotUsable):
            reader(octets)
