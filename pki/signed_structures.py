"""Signed X.509 structures of CRLs and OCSP responses: SEQUENCE { content, signatureAlgorithm, signature }."""

from cryptography.hazmat.primitives.asymmetric import ec, padding

from pki import der
from pki.keys import PrivateKey, signature_hash

_NULL = der.encode(der.NULL, b"")
# RFC 5758 3.2 (no parameters) and RFC 4055 5 (NULL).
_ECDSA = {
    "sha256": der.sequence(der.object_identifier("1.2.840.10045.4.3.2")),
    "sha384": der.sequence(der.object_identifier("1.2.840.10045.4.3.3")),
    "sha512": der.sequence(der.object_identifier("1.2.840.10045.4.3.4")),
}
_RSA = {"sha256": der.sequence(der.object_identifier("1.2.840.113549.1.1.11"), _NULL)}


def signature_algorithm(key: PrivateKey) -> bytes:
    """AlgorithmIdentifier (RFC 5280 4.1.1.2) of signatures by `sign_content`."""
    name = signature_hash(key).name
    return _ECDSA[name] if isinstance(key, ec.EllipticCurvePrivateKey) else _RSA[name]


def sign_content(key: PrivateKey, content: bytes) -> bytes:
    if isinstance(key, ec.EllipticCurvePrivateKey):
        return key.sign(content, ec.ECDSA(signature_hash(key)))
    return key.sign(content, padding.PKCS1v15(), signature_hash(key))


def encode_signed(key: PrivateKey, content: bytes, *more: bytes) -> bytes:
    """Sign `content`; `more` follows the signature and is not signed."""
    return der.sequence(content, signature_algorithm(key), der.bit_string(sign_content(key, content)), *more)
