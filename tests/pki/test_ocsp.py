"""OCSP requests in all accepted forms, and responses that other tools can parse."""

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.ocsp import OCSPRequestBuilder, OCSPResponseStatus, load_der_ocsp_request, load_der_ocsp_response
from hypothesis import given, settings
from hypothesis import strategies as st

from pki import der
from pki.crl import Revocation
from pki.errors import OcspRequestMalformed
from pki.keys import generate_key
from pki.ocsp import (
    MAX_CERTIFICATES,
    MAX_REQUEST_BYTES,
    CertificateStatus,
    IssuerHashes,
    OcspRequest,
    OcspSigner,
    encode_refusal,
    read_request,
)
from tests.pki.conftest import Chain
from tests.pki.openssl import answer, openssl
from tests.pki.status_answers import HOUR, make_signer, question
from tests.run_depth import examples

_NONCE = "1.3.6.1.5.5.7.48.1.2"


@pytest.fixture(scope="module")
def certificate(chain: Chain) -> x509.Certificate:
    return chain.issue("eap-client-device", "laptop 1")


@pytest.fixture(scope="module")
def signer(chain: Chain) -> OcspSigner:
    return make_signer(chain)


def _single(request: bytes) -> bytes:
    outer = next(der.iter_children(request)).content
    tbs = next(der.iter_children(outer)).content
    return next(der.iter_children(tbs)).content


def _assembled(
    singles: bytes, *, version: bytes = b"", requestor: bytes = b"", extensions: bytes = b"", signature: bytes = b""
) -> bytes:
    tbs = der.sequence(version, requestor, der.encode(der.SEQUENCE, singles), extensions)
    return der.sequence(tbs, signature)


def test_request_is_parsed_as_by_the_library(chain, certificate):
    data = question(chain, certificate, b"n" * 32)
    request, theirs = read_request(data), load_der_ocsp_request(data)
    (asked,) = request.certificates
    assert int.from_bytes(asked.serial) == theirs.serial_number
    assert (asked.issuer_name_hash, asked.issuer_key_hash) == (theirs.issuer_name_hash, theirs.issuer_key_hash)
    assert request.nonce == b"n" * 32
    assert IssuerHashes(chain.issuing.certificate).issued(asked)
    assert not IssuerHashes(chain.root.certificate).issued(asked)


def test_openssl_request_with_name_and_signature_is_parsed(chain, certificate, tmp_path):
    """Admit ignores the requester's name and signature."""
    _, issuer, file = chain.write(tmp_path, certificate)
    key = tmp_path / "key.pem"
    answer("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", str(key))
    answer("req", "-x509", "-key", str(key), "-subj", "/CN=asker", "-out", str(tmp_path / "asker.pem"))
    signed = ["-signer", str(tmp_path / "asker.pem"), "-signkey", str(key)]
    asked = ["-issuer", str(issuer), "-cert", str(file), "-cert", str(issuer)]
    answer("ocsp", *asked, *signed, "-reqout", str(tmp_path / "request"))
    request = read_request((tmp_path / "request").read_bytes())
    assert [int.from_bytes(item.serial) for item in request.certificates] == [
        certificate.serial_number,
        chain.issuing.certificate.serial_number,
    ]
    assert request.nonce is not None


@pytest.mark.parametrize("value", [0, -1, -(1 << 80), 1, 127, 128, 1 << 159])
def test_every_serial_is_echoed_unchanged(chain, signer, value):
    octets = value.to_bytes((value.bit_length() // 8) + 1, signed=True)
    fields = list(
        der.iter_children(next(der.iter_children(_single(question(chain, chain.issuing.certificate)))).content)
    )
    parts = list(der.iter_children(fields[0].content))
    certid = der.sequence(*(part.encoded for part in parts[:3]), der.encode(der.INTEGER, octets))
    request = read_request(_assembled(der.sequence(certid)))
    assert request.certificates[0].serial == (octets.lstrip(b"\0") if value > 0 else b"")
    made = signer.answer(request, ["unknown"], this_update=chain.now, next_update=chain.now + HOUR)
    assert certid in made


def test_irrelevant_parts_are_skipped(chain, certificate):
    single = _single(question(chain, certificate))
    plain = read_request(_assembled(single))
    name = der.explicit(1, der.explicit(4, x509.Name([]).public_bytes()))
    other = der.explicit(2, der.sequence(der.extension("1.2.3", b"x")))
    version, signature = der.explicit(0, b"\x02\x01\x00"), der.explicit(0, der.sequence())
    for parts in ({"version": version}, {"requestor": name}, {"extensions": other}, {"signature": signature}):
        assert read_request(_assembled(single, **parts)) == plain


def test_algorithm_without_parameters_is_echoed_without_them(chain, certificate):
    """Each of the two forms has one meaning (RFC 4055 2.1), but clients compare octets."""
    data = question(chain, certificate)
    algorithm = der.object_identifier("2.16.840.1.101.3.4.2.1")
    bare, full = der.sequence(algorithm), der.sequence(algorithm, b"\x05\x00")
    single = _single(data)
    certid = next(der.iter_children(next(der.iter_children(single)).content)).content
    rest = b"".join(part.encoded for part in list(der.iter_children(certid))[1:])
    for form in (bare, full):
        encoded = der.sequence(form, rest)
        (asked,) = read_request(_assembled(der.sequence(encoded))).certificates
        assert asked.encoded == encoded
        assert IssuerHashes(chain.issuing.certificate).issued(asked)


def test_unknown_hash_algorithm_matches_no_authority(chain, certificate):
    digest = hashes.SHA512()
    builder = OCSPRequestBuilder().add_certificate(certificate, chain.issuing.certificate, digest)
    (asked,) = read_request(builder.build().public_bytes(Encoding.DER)).certificates
    assert not IssuerHashes(chain.issuing.certificate).issued(asked)


@pytest.mark.parametrize("content", [b"", b"\x2a\x80\x01", b"\x2a\x81", b"\x2a" + b"\xff" * 18 + b"\x7f", b"\x2a" * 64])
def test_invalid_hash_identifier_is_malformed(content):
    """The rules of X.690 8.19.2, and of other OCSP parsers."""
    algorithm = der.sequence(der.encode(der.OBJECT_IDENTIFIER, content))
    single = der.sequence(der.sequence(algorithm, _octets(20), _octets(20), der.integer(5)))
    with pytest.raises(OcspRequestMalformed):
        read_request(_assembled(single))


def _nonces(*values: bytes, critical: bool = False) -> bytes:
    return der.explicit(2, der.sequence(*(der.extension(_NONCE, value, critical=critical) for value in values)))


def _octets(count: int) -> bytes:
    return der.encode(der.OCTET_STRING, bytes(count))


@pytest.mark.parametrize(
    "parts",
    [
        {"extensions": _nonces(_octets(0))},
        {"extensions": _nonces(_octets(129))},
        {"extensions": _nonces(_octets(8), _octets(8))},
        {"extensions": _nonces(b"not an octet string")},
        {"extensions": _nonces(_octets(8) + b"\0")},
        {"extensions": der.explicit(2, der.sequence(der.extension("1.2.3", b"x", critical=True)))},
        {"extensions": der.explicit(2, der.sequence(der.sequence()))},
        {"version": der.explicit(0, b"\x02\x01\x01")},
        {"signature": der.sequence()},
    ],
)
def test_request_over_the_limits_is_malformed(chain, certificate, parts):
    with pytest.raises(OcspRequestMalformed):
        read_request(_assembled(_single(question(chain, certificate)), **parts))


def test_counts_and_sizes_are_limited(chain, certificate):
    single = _single(question(chain, certificate))
    assert len(read_request(_assembled(single * MAX_CERTIFICATES)).certificates) == MAX_CERTIFICATES
    for singles in (b"", single * (MAX_CERTIFICATES + 1)):
        with pytest.raises(OcspRequestMalformed):
            read_request(_assembled(singles))
    with pytest.raises(OcspRequestMalformed, match="maximum is"):
        read_request(bytes(MAX_REQUEST_BYTES + 1))


def _is_read(data: bytes) -> OcspRequest | None:
    """Whether the request can be parsed. Only one type of error may be raised."""
    try:
        return read_request(data)
    except OcspRequestMalformed:
        return None


@settings(max_examples=examples(400), deadline=None)
@given(st.binary(max_size=300))
def test_random_bytes_are_parsed_or_malformed(data):
    _is_read(data)
    _is_read(der.sequence(der.sequence(data)))


@settings(max_examples=examples(600), deadline=None)
@given(st.data())
def test_mutated_request_is_malformed_or_gets_a_der_response(chain, certificate, signer, data):
    octets = bytearray(_assembled(_single(question(chain, certificate)) * 2, extensions=_nonces(_octets(16))))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(octets) - 1))
        match data.draw(st.sampled_from(["replace", "insert", "delete", "repeat", "cut"])):
            case "replace":
                octets[at] = data.draw(st.integers(0, 255))
            case "insert":
                octets[at:at] = data.draw(st.binary(min_size=1, max_size=6))
            case "delete":
                del octets[at : at + data.draw(st.integers(1, 6))]
            case "repeat":
                octets[at:at] = octets[at : at + 20]
            case _:
                del octets[at:]
        if not octets:
            return
    request = _is_read(bytes(octets))
    if request is not None:
        statuses: list[CertificateStatus] = ["unknown"] * len(request.certificates)
        made = signer.answer(request, statuses, this_update=chain.now, next_update=chain.now + HOUR)
        theirs = load_der_ocsp_response(made)
        assert len(list(theirs.responses)) == len(statuses)


@pytest.mark.parametrize("kind", ["ecdsa-p256", "ecdsa-p384", "rsa-2048"])
def test_openssl_verifies_responses_of_every_key_type(chain, certificate, tmp_path, kind):
    root, issuing, file = chain.write(tmp_path, certificate)
    request = read_request(question(chain, certificate, b"n" * 20))
    status = Revocation(chain.now, "affiliationChanged")
    made = make_signer(chain, kind).answer(request, [status], this_update=chain.now, next_update=chain.now + HOUR)
    (tmp_path / "answer").write_bytes(made)
    trust = ["-CAfile", str(root), "-verify_other", str(issuing)]
    asked = ["-issuer", str(issuing), "-sha256", "-cert", str(file), "-no_nonce", "-respin", str(tmp_path / "answer")]
    told = openssl("ocsp", *asked, *trust)
    assert b"Response verify OK" in told.stderr, told.stderr
    assert f"{file}: revoked" in told.stdout.decode()
    assert b"Reason: affiliationChanged" in told.stdout


@pytest.mark.parametrize("reason", ["malformedRequest", "internalError", "tryLater", "unauthorized"])
def test_error_response_is_parsed_as_such(reason):
    name = load_der_ocsp_response(encode_refusal(reason)).response_status.name
    assert name.replace("_", "").lower() == reason.lower()
    assert name != OCSPResponseStatus.SUCCESSFUL.name


def test_signer_accepts_only_its_own_key(chain, signer):
    with pytest.raises(ValueError, match="does not belong"):
        OcspSigner(signer.certificate, generate_key())
    assert "EllipticCurvePrivateKey" not in repr(signer)
