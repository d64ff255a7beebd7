"""Bodies of EST messages (RFC 7030, RFC 8951): functions that parse requests and encode CSR attributes.

This module does not handle HTTP.
"""

import base64
import binascii

from pki import der
from pki.errors import RequestNotAllowed
from pki.keys import KeyKind

# A request with the largest key and twenty names takes a few kilobytes.
MAX_BODY_OCTETS = 64 * 1024
_PEM_BEGIN = b"-----BEGIN"

_RSA_ENCRYPTION = "1.2.840.113549.1.1.1"
_SHA256_WITH_RSA = "1.2.840.113549.1.1.11"
_EC_PUBLIC_KEY = "1.2.840.10045.2.1"
# Maps each kind of ECDSA key to its curve, and to the signature algorithm with the hash for this curve.
_CURVES = {
    "ecdsa-p256": ("1.2.840.10045.3.1.7", "1.2.840.10045.4.3.2"),
    "ecdsa-p384": ("1.3.132.0.34", "1.2.840.10045.4.3.3"),
}


def read_body(body: bytes) -> bytes:
    """Return the certificate request in the body of a simpleenroll request, as DER or PEM.

    RFC 7030 requires DER in base64, regardless of Content-Transfer-Encoding (RFC 8951 2.1). Admit also accepts plain
    DER and PEM. Raises RequestNotAllowed.
    """
    if len(body) > MAX_BODY_OCTETS:
        raise RequestNotAllowed(f"The body has {len(body)} bytes; the maximum is {MAX_BODY_OCTETS}.")
    if body[:1] == bytes((der.SEQUENCE,)) and body[1:2] >= b"\x80":
        return body
    if body.lstrip().startswith(_PEM_BEGIN):
        return body
    try:
        return base64.b64decode(b"".join(body.split()), validate=True)
    except (binascii.Error, ValueError) as exc:
        raise RequestNotAllowed("The body is not base64 (RFC 7030 4.2.1).") from exc


def encode_key_attributes(kind: KeyKind) -> bytes:
    """Build CsrAttrs (RFC 7030 4.5.2) as DER.

    The attributes request a key of this kind from the client, and a signature with the hash for this kind.
    """
    if kind in _CURVES:
        curve, signature = _CURVES[kind]
        key = _encode_attribute(_EC_PUBLIC_KEY, der.object_identifier(curve))
    else:
        key = _encode_attribute(_RSA_ENCRYPTION, der.integer(int(kind.removeprefix("rsa-"))))
        signature = _SHA256_WITH_RSA
    return der.sequence(key, der.object_identifier(signature))


def _encode_attribute(kind: str, value: bytes) -> bytes:
    return der.sequence(der.object_identifier(kind), der.encode(der.SET, value))
