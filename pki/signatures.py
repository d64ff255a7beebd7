"""Verifies a certificate's signature with a public key, regardless of names."""

from functools import lru_cache

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, padding, rsa
from cryptography.hazmat.primitives.asymmetric.types import PublicKeyTypes
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_der_public_key

from pki.errors import UNREADABLE_ERRORS

# Cache size: authorities in use at a time.
_MAX_KEYS = 2_000
# Errors for a key or signature that is damaged or of another kind.
_INVALID_SIGNATURE_ERRORS = (InvalidSignature, UnsupportedAlgorithm, ValueError, TypeError)


def public_key_der(certificate_der: bytes) -> bytes:
    """SubjectPublicKeyInfo of a certificate; b"" if it does not parse, which matches no signature."""
    try:
        key = x509.load_der_x509_certificate(certificate_der).public_key()
    except UNREADABLE_ERRORS:
        return b""
    return key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def is_signed_with(signed: x509.Certificate, public_key: bytes) -> bool:
    """Whether this key (SubjectPublicKeyInfo) made the certificate's signature (RFC 5280 6.1.3 (a)(1)).

    Does not compare names: OpenSSL, which built the chain, treats two spellings of a name as equal.
    """
    try:
        _verify(signed, _load_key(public_key))
    except _INVALID_SIGNATURE_ERRORS:
        return False
    return True


@lru_cache(maxsize=_MAX_KEYS)
def _load_key(public_key: bytes) -> PublicKeyTypes:
    return load_der_public_key(public_key)


def _verify(signed: x509.Certificate, key: PublicKeyTypes) -> None:
    signature, content = signed.signature, signed.tbs_certificate_bytes
    match key:
        case rsa.RSAPublicKey():
            parameters, digest = signed.signature_algorithm_parameters, signed.signature_hash_algorithm
            if digest is None or not isinstance(parameters, padding.PKCS1v15 | padding.PSS):
                raise InvalidSignature
            key.verify(signature, content, parameters, digest)
        case ec.EllipticCurvePublicKey():
            scheme = signed.signature_algorithm_parameters
            if not isinstance(scheme, ec.ECDSA):
                raise InvalidSignature
            key.verify(signature, content, scheme)
        case ed25519.Ed25519PublicKey() | ed448.Ed448PublicKey():
            key.verify(signature, content)
        case _:
            raise InvalidSignature
