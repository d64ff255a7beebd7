"""Online Certificate Status Protocol (RFC 6960, profile of RFC 5019): parses requests and builds signed responses.

The module checks sizes before it parses. If a response must repeat a value of the request, the module encodes the value
again and copies no bytes.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from pki import der
from pki.crl import REVOCATION_REASONS, Revocation
from pki.errors import DerDamaged, OcspRequestMalformed
from pki.keys import PrivateKey, is_same_public_key, key_bits
from pki.signatures import encode_signed

MAX_REQUEST_BYTES = 4096
MAX_CERTIFICATES = 20
# RFC 9654 2.1: a nonce has 1 to 128 octets, and servers must support 32 octets or more.
_NONCE_OCTETS = range(1, 129)
# RFC 5280 4.1.2.2 allows 20 octets. One more octet can be a leading zero, which makes the number positive.
_MAX_SERIAL_OCTETS = 21

_NONCE_OID = "1.3.6.1.5.5.7.48.1.2"
_BASIC_RESPONSE_OID = der.object_identifier("1.3.6.1.5.5.7.48.1.1")
_HASHES: dict[bytes, tuple[str, int]] = {
    der.object_identifier("1.3.14.3.2.26"): ("sha1", 20),
    der.object_identifier("2.16.840.1.101.3.4.2.1"): ("sha256", 32),
}
_NULL = der.encode(der.NULL, b"")

# Errors of OCSPResponseStatus (RFC 6960 4.2.1). An error response is not signed.
OcspRefusal = Literal["malformedRequest", "internalError", "tryLater", "unauthorized"]
_REFUSALS: dict[OcspRefusal, int] = {"malformedRequest": 1, "internalError": 2, "tryLater": 3, "unauthorized": 6}
# Status of a certificate: "good", "unknown", or the time and the reason of its revocation.
CertificateStatus = Literal["good", "unknown"] | Revocation
_STATUS_CHOICES = {"good": b"\x80\x00", "unknown": b"\x82\x00"}


class CertId(NamedTuple):
    """Identifier of a certificate in a request (RFC 6960 4.1.1)."""

    # Name of the hash algorithm; "" if Admit does not support the algorithm.
    hash_name: str
    issuer_name_hash: bytes
    issuer_key_hash: bytes
    # Big-endian, without leading zero bytes; b"" for zero and negative numbers, which Admit never issues.
    serial: bytes
    # The CertID, newly encoded as DER.
    encoded: bytes


@dataclass(frozen=True, slots=True)
class OcspRequest:
    certificates: tuple[CertId, ...]
    nonce: bytes | None


def read_request(data: bytes) -> OcspRequest:
    """Parse a request. Raises OcspRequestMalformed.

    A request may have up to MAX_REQUEST_BYTES bytes and MAX_CERTIFICATES certificates. The function ignores the
    signature and the name of the requestor, because anyone may request a status.
    """
    if len(data) > MAX_REQUEST_BYTES:
        raise OcspRequestMalformed(f"The request has {len(data)} bytes; the maximum is {MAX_REQUEST_BYTES}.")
    try:
        return _parse_request(data)
    except DerDamaged as exc:
        raise OcspRequestMalformed(f"Invalid OCSP request: {exc}.") from exc


def _parse_request(data: bytes) -> OcspRequest:
    outer = _read_whole(data)
    parts = list(der.iter_children(outer))
    if not parts or len(parts) > 2 or any(part.tag != 0xA0 for part in parts[1:]):
        raise DerDamaged("the outermost sequence has unexpected parts")
    fields = list(der.iter_children(der.require_tag(parts[0], der.SEQUENCE).content))
    if fields and fields[0].tag == 0xA0:
        if fields[0].content != b"\x02\x01\x00":
            raise DerDamaged("the version is not 1")
        del fields[0]
    if fields and fields[0].tag == 0xA1:
        del fields[0]
    if not fields or len(fields) > 2:
        raise DerDamaged("the list of requests is missing, or unexpected parts follow it")
    certificates = list(der.iter_children(der.require_tag(fields[0], der.SEQUENCE).content))
    if not 0 < len(certificates) <= MAX_CERTIFICATES:
        raise DerDamaged(f"{len(certificates)} certificates; 1 to {MAX_CERTIFICATES} are allowed")
    nonce = _read_nonce(_read_explicit(fields[1], 2)) if len(fields) == 2 else None
    return OcspRequest(tuple(map(_read_single, certificates)), nonce)


def _read_whole(data: bytes) -> bytes:
    """Return the content of the sequence that `data` consists of."""
    element, end = der.read_element(data)
    if end != len(data):
        raise DerDamaged(f"{len(data) - end} bytes follow the end")
    return der.require_tag(element, der.SEQUENCE).content


def _read_explicit(element: der.Element, number: int) -> bytes:
    """Return the content of the sequence in the element, which must have the explicit tag `number`."""
    return _read_whole(der.require_tag(element, 0xA0 | number).content)


def _read_single(element: der.Element) -> CertId:
    parts = list(der.iter_children(der.require_tag(element, der.SEQUENCE).content))
    if not parts or len(parts) > 2:
        raise DerDamaged("a request must have one or two parts")
    if len(parts) == 2:
        _require_none_critical(_read_extensions(_read_explicit(parts[1], 0)))
    fields = list(der.iter_children(der.require_tag(parts[0], der.SEQUENCE).content))
    if len(fields) != 4:
        raise DerDamaged("a CertID must have four parts")
    algorithm, name_hash, key_hash, number = fields
    der.require_tag(name_hash, der.OCTET_STRING)
    der.require_tag(key_hash, der.OCTET_STRING)
    hash_name, algorithm_encoded = _read_hash_algorithm(algorithm, len(name_hash.content), len(key_hash.content))
    serial, serial_encoded = _read_serial(number)
    encoded = der.sequence(
        algorithm_encoded,
        der.encode(der.OCTET_STRING, name_hash.content),
        der.encode(der.OCTET_STRING, key_hash.content),
        serial_encoded,
    )
    return CertId(hash_name, name_hash.content, key_hash.content, serial, encoded)


def _read_hash_algorithm(algorithm: der.Element, *lengths: int) -> tuple[str, bytes]:
    """Return the name of the hash algorithm, and its AlgorithmIdentifier as DER.

    The parameters in the request may be NULL or missing (RFC 4055 2.1). The returned AlgorithmIdentifier has the same
    parameters as the request.
    """
    parts = list(der.iter_children(der.require_tag(algorithm, der.SEQUENCE).content))
    if not parts or parts[0].tag != der.OBJECT_IDENTIFIER or any(part.encoded != _NULL for part in parts[1:2]):
        raise DerDamaged("the hash algorithm is not readable")
    if len(parts) > 2:
        raise DerDamaged("the hash algorithm has several parameters")
    identifier = der.encode(der.OBJECT_IDENTIFIER, parts[0].content)
    name, octets = _HASHES.get(identifier, ("", 0))
    if not name:
        # Even an unknown algorithm must have a valid identifier, because the response contains it.
        der.decode_oid(parts[0].content)
    if name and any(length != octets for length in lengths):
        raise DerDamaged(f"a hash of {name} has {octets} octets")
    return name, der.sequence(identifier, *(_NULL for _ in parts[1:]))


def _read_serial(number: der.Element) -> tuple[bytes, bytes]:
    content = der.require_tag(number, der.INTEGER).content
    if not 0 < len(content) <= _MAX_SERIAL_OCTETS:
        raise DerDamaged(f"a serial number of {len(content)} octets")
    if len(content) > 1 and (content[0], content[1] >> 7) in ((0, 0), (0xFF, 1)):
        raise DerDamaged("a serial number has unnecessary octets")
    positive = not content[0] & 0x80
    return content.lstrip(b"\0") if positive else b"", der.encode(der.INTEGER, content)


class _Extension(NamedTuple):
    identifier: str
    critical: bool
    value: bytes


def _read_extensions(content: bytes) -> list[_Extension]:
    return [_read_extension(element) for element in der.iter_children(content)]


def _read_extension(element: der.Element) -> _Extension:
    parts = list(der.iter_children(der.require_tag(element, der.SEQUENCE).content))
    identifier = parts.pop(0) if parts else element
    critical = False
    if parts and parts[0].tag == der.BOOLEAN:
        critical = parts[0].content != b"\0"
        del parts[0]
    if len(parts) != 1:
        raise DerDamaged("an extension without a value, or with several")
    name = der.decode_oid(der.require_tag(identifier, der.OBJECT_IDENTIFIER).content)
    return _Extension(name, critical, der.require_tag(parts[0], der.OCTET_STRING).content)


def _require_none_critical(extensions: list[_Extension]) -> None:
    for extension in extensions:
        if extension.critical and extension.identifier != _NONCE_OID:
            raise DerDamaged(f"unknown critical extension {extension.identifier}")


def _read_nonce(content: bytes) -> bytes | None:
    extensions = _read_extensions(content)
    _require_none_critical(extensions)
    values = [extension.value for extension in extensions if extension.identifier == _NONCE_OID]
    if not values:
        return None
    if len(values) > 1:
        raise DerDamaged("several nonces")
    element, end = der.read_element(values[0])
    nonce = der.require_tag(element, der.OCTET_STRING).content
    if end != len(values[0]) or len(nonce) not in _NONCE_OCTETS:
        raise DerDamaged(f"a nonce of {len(nonce)} octets; 1 to {_NONCE_OCTETS.stop - 1} are allowed (RFC 9654 2.1)")
    return nonce


class IssuerHashes:
    """Hashes of an authority's name and key by hash algorithm, to compare with CertIDs."""

    def __init__(self, authority: x509.Certificate) -> None:
        name, key = authority.subject.public_bytes(), key_bits(authority.public_key())
        self._known = {
            hash_name: (hashlib.new(hash_name, name).digest(), hashlib.new(hash_name, key).digest())
            for hash_name, _ in _HASHES.values()
        }

    def issued(self, certificate: CertId) -> bool:
        """Whether the requested certificate is from this authority."""
        return self._known.get(certificate.hash_name) == (certificate.issuer_name_hash, certificate.issuer_key_hash)


@dataclass(frozen=True, slots=True)
class OcspSigner:
    """An authority's delegated certificate for OCSP responses (RFC 6960 2.6), and its private key."""

    certificate: x509.Certificate
    key: PrivateKey = field(repr=False)
    # Responses must not be valid longer than the signer's certificate.
    certificate_ends: datetime = field(init=False)
    # Encoded responder id, and the certificate that each response of this signer contains.
    _responder_id: bytes = field(init=False, repr=False)
    _certificates: bytes = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if not is_same_public_key(self.certificate.public_key(), self.key.public_key()):
            raise ValueError("the key does not belong to the signer's certificate")
        object.__setattr__(self, "certificate_ends", self.certificate.not_valid_after_utc)
        # byKey (RFC 6960 4.2.2.3). The SHA-1 hash only identifies the key and protects nothing.
        digest = hashlib.sha1(key_bits(self.key.public_key()), usedforsecurity=False).digest()
        object.__setattr__(self, "_responder_id", der.explicit(2, der.encode(der.OCTET_STRING, digest)))
        certificate = self.certificate.public_bytes(Encoding.DER)
        object.__setattr__(self, "_certificates", der.explicit(0, der.sequence(certificate)))

    def answer(
        self,
        request: OcspRequest,
        statuses: Sequence[CertificateStatus],
        *,
        this_update: datetime,
        next_update: datetime,
    ) -> bytes:
        """Build an OCSPResponse with the status of each certificate in the request. `statuses` has the request's order.

        Set `this_update` to the current time, because the response also contains this value as producedAt. The response
        repeats the request's nonce.
        """
        when = der.generalized_time(this_update)
        until = der.explicit(0, der.generalized_time(next_update))
        single = b"".join(
            der.sequence(certificate.encoded, _encode_status(status), when, until)
            for certificate, status in zip(request.certificates, statuses, strict=True)
        )
        extensions = b""
        if request.nonce is not None:
            nonce = der.extension(_NONCE_OID, der.encode(der.OCTET_STRING, request.nonce))
            extensions = der.explicit(1, der.sequence(nonce))
        content = der.sequence(self._responder_id, when, der.encode(der.SEQUENCE, single), extensions)
        basic = encode_signed(self.key, content, self._certificates)
        return _encode_response(
            0, der.explicit(0, der.sequence(_BASIC_RESPONSE_OID, der.encode(der.OCTET_STRING, basic)))
        )


def _encode_status(status: CertificateStatus) -> bytes:
    if isinstance(status, str):
        return _STATUS_CHOICES[status]
    reason = REVOCATION_REASONS[status.reason]
    # RFC 5280 5.3.1: a missing reason means "unspecified".
    reason_field = der.explicit(0, der.encode(der.ENUMERATED, bytes((reason,)))) if reason else b""
    return der.explicit(1, der.generalized_time(status.at) + reason_field)


def encode_refusal(reason: OcspRefusal) -> bytes:
    return _encode_response(_REFUSALS[reason], b"")


def _encode_response(status: int, content: bytes) -> bytes:
    return der.sequence(der.encode(der.ENUMERATED, bytes((status,))), content)
