"""X.509 signatures: functions to verify a certificate's signature, and to sign CRLs and OCSP responses."""

from functools import lru_cache

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, padding, rsa
from cryptography.hazmat.primitives.asymmetric.types import PublicKeyTypes
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_der_public_key

from pki import der
from pki.errors import UNREADABLE_ERRORS
from pki.keys import PrivateKey, signature_hash

# Maximum number of cached keys, which is more than the number of authorities in use at a time.
_MAX_KEYS = 2_000
# Errors that `cryptography` raises if a key or signature is damaged or is not of the expected kind.
_INVALID_SIGNATURE_ERRORS = (InvalidSignature, UnsupportedAlgorithm, ValueError, TypeError)


def public_key_der(certificate_der: bytes) -> bytes:
    """Return the SubjectPublicKeyInfo of a certificate, or b"" (which matches no signature) for invalid DER."""
    try:
        key = x509.load_der_x509_certificate(certificate_der).public_key()
    except UNREADABLE_ERRORS:
        return b""
    return key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def is_signed_with(signed: x509.Certificate, public_key: bytes) -> bool:
    """Whether `signed` is signed with the key `public_key` (SubjectPublicKeyInfo; RFC 5280 6.1.3 (a)(1)).

    Does not compare issuer and subject names. OpenSSL has already compared them, and accepts different spellings.
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


_NULL = der.encode(der.NULL, b"")
# AlgorithmIdentifiers have no parameters for ECDSA (RFC 5758 3.2), and NULL as parameters for RSA (RFC 4055 5).
_ECDSA = {
    "sha256": der.sequence(der.object_identifier("1.2.840.10045.4.3.2")),
    "sha384": der.sequence(der.object_identifier("1.2.840.10045.4.3.3")),
    "sha512": der.sequence(der.object_identifier("1.2.840.10045.4.3.4")),
}
_RSA = {"sha256": der.sequence(der.object_identifier("1.2.840.113549.1.1.11"), _NULL)}


def signature_algorithm(key: PrivateKey) -> bytes:
    """AlgorithmIdentifier (RFC 5280 4.1.1.2) for signatures of `sign_content`."""
    name = signature_hash(key).name
    return _ECDSA[name] if isinstance(key, ec.EllipticCurvePrivateKey) else _RSA[name]


def sign_content(key: PrivateKey, content: bytes) -> bytes:
    if isinstance(key, ec.EllipticCurvePrivateKey):
        return key.sign(content, ec.ECDSA(signature_hash(key)))
    return key.sign(content, padding.PKCS1v15(), signature_hash(key))


def encode_signed(key: PrivateKey, content: bytes, *more: bytes) -> bytes:
    """Sign `content`, and encode content and signature in a sequence.

    The unsigned parts in `more` follow the signature.
    """
    return der.sequence(content, signature_algorithm(key), der.bit_string(sign_content(key, content)), *more)
