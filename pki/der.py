"""The part of DER (X.690) that Admit needs for names, CRLs and OCSP, because the package `cryptography` has limits.

`cryptography` decodes names into Python strings and drops their ASN.1 types and bytes. OpenSSL computes the hash and
the one-line form of a name from these types and bytes. `cryptography` copies the whole CRL for each entry that it adds.
It supports only one certificate in an OCSP response.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import NamedTuple

from pki.errors import DerDamaged

BOOLEAN = 0x01
INTEGER = 0x02
BIT_STRING = 0x03
OCTET_STRING = 0x04
NULL = 0x05
OBJECT_IDENTIFIER = 0x06
ENUMERATED = 0x0A
UTF8_STRING = 0x0C
NUMERIC_STRING = 0x12
PRINTABLE_STRING = 0x13
T61_STRING = 0x14
IA5_STRING = 0x16
UTC_TIME = 0x17
GENERALIZED_TIME = 0x18
UNIVERSAL_STRING = 0x1C
BMP_STRING = 0x1E
SEQUENCE = 0x30
SET = 0x31
_EXPLICIT_VERSION = 0xA0
# RFC 5280 4.1.2.5: years from 1950 to 2049 are written with two digits.
_YEARS_OF_TWO_DIGITS = range(1950, 2050)

_MAX_OID_OCTETS = 63
# The arcs (numbers) of an object identifier must be below this limit. The largest arc in use is a UUID (X.667).
_OID_ARC_END = 1 << 128


class Element(NamedTuple):
    tag: int
    content: bytes
    # Received bytes of the element: tag, length and content.
    encoded: bytes


def read_element(data: bytes, at: int = 0) -> tuple[Element, int]:
    """Read the element at byte `at` of `data`. Returns the element, and the position after the element.

    Supports only tags of one byte and definite lengths. X.509 uses no others.
    """
    if at + 2 > len(data):
        raise DerDamaged(f"byte {at}: the data ends within a tag or length")
    tag, length, start = data[at], data[at + 1], at + 2
    if tag & 0x1F == 0x1F:
        raise DerDamaged(f"byte {at}: unexpected tag of several bytes")
    if length & 0x80:
        octets = length & 0x7F
        if octets == 0 or octets > 4 or start + octets > len(data):
            raise DerDamaged(f"byte {at + 1}: invalid length")
        length = int.from_bytes(data[start : start + octets])
        start += octets
    end = start + length
    if end > len(data):
        raise DerDamaged(f"byte {at}: the element needs {length} bytes, but {len(data) - start} are left")
    return Element(tag, data[start:end], data[at:end]), end


def iter_children(content: bytes) -> Iterator[Element]:
    at = 0
    while at < len(content):
        element, at = read_element(content, at)
        yield element


def require_tag(element: Element, tag: int) -> Element:
    if element.tag != tag:
        raise DerDamaged(f"tag 0x{element.tag:02x} instead of 0x{tag:02x}")
    return element


def encode(tag: int, content: bytes) -> bytes:
    length = len(content)
    if length < 0x80:
        return bytes((tag, length)) + content
    octets = length.to_bytes((length.bit_length() + 7) // 8)
    return bytes((tag, 0x80 | len(octets))) + octets + content


def explicit(number: int, content: bytes) -> bytes:
    """Element with a constructed context-specific tag."""
    return encode(0xA0 | number, content)


def sequence(*parts: bytes) -> bytes:
    return encode(SEQUENCE, b"".join(parts))


def integer(value: int) -> bytes:
    """INTEGER of a number that is 0 or higher."""
    return encode(INTEGER, value.to_bytes(value.bit_length() // 8 + 1))


def bit_string(content: bytes) -> bytes:
    """BIT STRING of whole octets."""
    return encode(BIT_STRING, b"\0" + content)


def object_identifier(text: str) -> bytes:
    """OBJECT IDENTIFIER from the dotted form (X.690 8.19)."""
    first, second, *arcs = map(int, text.split("."))
    content = b""
    for arc in (40 * first + second, *arcs):
        octets = [arc & 0x7F]
        while arc := arc >> 7:
            octets.append(0x80 | arc & 0x7F)
        content += bytes(reversed(octets))
    return encode(OBJECT_IDENTIFIER, content)


def generalized_time(moment: datetime) -> bytes:
    """GeneralizedTime in whole seconds (RFC 5280, RFC 6960)."""
    return encode(GENERALIZED_TIME, f"{moment.astimezone(UTC):%Y%m%d%H%M%SZ}".encode())


def time(moment: datetime) -> bytes:
    """UTCTime until the year 2049, and GeneralizedTime from 2050 (RFC 5280 4.1.2.5)."""
    if moment.year in _YEARS_OF_TWO_DIGITS:
        return encode(UTC_TIME, f"{moment.astimezone(UTC):%y%m%d%H%M%SZ}".encode())
    return generalized_time(moment)


def extension(identifier: str, value: bytes, *, critical: bool = False) -> bytes:
    """Certificate or CRL extension (RFC 5280 4.1). `value` is the content of the extension in DER."""
    flag = encode(BOOLEAN, b"\xff") if critical else b""
    return sequence(object_identifier(identifier), flag, encode(OCTET_STRING, value))


def decode_oid(content: bytes) -> str:
    """Decode an object identifier to the dotted form (X.690 8.19).

    Rejects identifiers of more than 63 octets and arcs of more than 128 bits, as other parsers do.
    """
    if len(content) > _MAX_OID_OCTETS:
        raise DerDamaged(f"an object identifier of {len(content)} octets")
    arcs: list[int] = []
    value = 0
    for octet in content:
        if value == 0 and octet == 0x80:
            raise DerDamaged("an arc of an object identifier has more octets than it needs")
        value = value << 7 | octet & 0x7F
        if value >= _OID_ARC_END:
            raise DerDamaged("an arc of an object identifier has more than 128 bits")
        if not octet & 0x80:
            arcs.append(value)
            value = 0
    if not arcs or content[-1] & 0x80:
        raise DerDamaged("an object identifier ends within an arc")
    first = min(arcs[0] // 40, 2)
    return ".".join(str(arc) for arc in (first, arcs[0] - 40 * first, *arcs[1:]))


def read_names(tbs_certificate: bytes) -> tuple[bytes, bytes]:
    """Issuer and subject of a TBSCertificate (RFC 5280 4.1), as raw DER."""
    outer, _ = read_element(tbs_certificate)
    fields = list(iter_children(require_tag(outer, SEQUENCE).content))
    if fields and fields[0].tag == _EXPLICIT_VERSION:
        del fields[0]
    if len(fields) < 5:
        raise DerDamaged("a TBSCertificate with fewer than five fields")
    # The fields are serialNumber, signature, issuer, validity, subject.
    return require_tag(fields[2], SEQUENCE).encoded, require_tag(fields[4], SEQUENCE).encoded
