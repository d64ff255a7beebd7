"""Certificates with any name, valid or not.

A builder rejects invalid names, but other authorities issue them.
"""

from pki import der

Attribute = tuple[bytes, int, bytes]

COMMON_NAME = bytes.fromhex("550403")
ORGANISATION = bytes.fromhex("55040a")
DESCRIPTION = bytes.fromhex("55040d")
UNIQUE_IDENTIFIER = bytes.fromhex("55042d")
# 1.2.3.4.5
UNKNOWN_TYPE = bytes.fromhex("2a030405")

_ECDSA_SHA256 = der.encode(der.SEQUENCE, der.encode(der.OBJECT_IDENTIFIER, bytes.fromhex("2a8648ce3d040302")))
_UTC_TIME = 0x17
_VALIDITY = der.encode(der.SEQUENCE, der.encode(_UTC_TIME, b"260101000000Z") + der.encode(_UTC_TIME, b"360101000000Z"))
# The generator of P-256: a point that any parser accepts.
_POINT = bytes.fromhex(
    "046b17d1f2e12c4247f8bce6e563a440f277037d812deb33a0f4a13945d898c296"
    "4fe342e2fe1a7f9b8ee7eb4a7c0f9e162bce33576b315ececbb6406837bf51f5"
)
_KEY_KIND = der.encode(
    der.SEQUENCE,
    der.encode(der.OBJECT_IDENTIFIER, bytes.fromhex("2a8648ce3d0201"))
    + der.encode(der.OBJECT_IDENTIFIER, bytes.fromhex("2a8648ce3d030107")),
)
_PUBLIC_KEY = der.encode(der.SEQUENCE, _KEY_KIND + der.encode(der.BIT_STRING, b"\0" + _POINT))


def name(*relative_names: list[Attribute]) -> bytes:
    return der.encode(der.SEQUENCE, b"".join(map(_relative_name, relative_names)))


def _relative_name(attributes: list[Attribute]) -> bytes:
    pairs = [
        der.encode(der.SEQUENCE, der.encode(der.OBJECT_IDENTIFIER, kind) + der.encode(tag, content))
        for kind, tag, content in attributes
    ]
    return der.encode(der.SET, b"".join(sorted(pairs)))


def certificate(subject: bytes) -> bytes:
    """The DER of a certificate with an invalid signature. Parsing requires no valid signature."""
    tbs = der.encode(
        der.SEQUENCE,
        der.encode(0xA0, der.encode(der.INTEGER, b"\x02"))
        + der.encode(der.INTEGER, b"\x01")
        + _ECDSA_SHA256
        + subject
        + _VALIDITY
        + subject
        + _PUBLIC_KEY,
    )
    return der.encode(
        der.SEQUENCE, tbs + _ECDSA_SHA256 + der.encode(der.BIT_STRING, b"\0\x30\x06\x02\x01\x01\x02\x01\x01")
    )
