"""Kinds of key pairs that Admit creates and that Admit accepts, and the hash algorithm for each kind."""

import hashlib
from typing import Literal

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes, PublicKeyTypes
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_der_private_key,
    load_pem_private_key,
)

from pki import der
from pki.errors import KeyNotAllowed

KeyKind = Literal["ecdsa-p256", "ecdsa-p384", "rsa-2048", "rsa-3072"]
PrivateKey = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey
PublicKey = ec.EllipticCurvePublicKey | rsa.RSAPublicKey

_CURVES: dict[str, ec.EllipticCurve] = {"ecdsa-p256": ec.SECP256R1(), "ecdsa-p384": ec.SECP384R1()}
_RSA_BITS = {"rsa-2048": 2048, "rsa-3072": 3072}
KEY_KINDS = (*_CURVES, *_RSA_BITS)
_MIN_RSA_BITS = 2048
# With larger RSA keys, each handshake takes milliseconds, so clients could overload the server.
_MAX_RSA_BITS = 4096
_MAX_KEY_FILE_BYTES = 32 * 1024
_ACCEPTED_CURVES = (ec.SECP256R1, ec.SECP384R1, ec.SECP521R1)


def generate_key(kind: KeyKind = "ecdsa-p256") -> PrivateKey:
    if curve := _CURVES.get(kind):
        return ec.generate_private_key(curve)
    return rsa.generate_private_key(public_exponent=65537, key_size=_RSA_BITS[kind])


def require_acceptable(key: PublicKeyTypes) -> PublicKey:
    """Return the key if it is ECDSA on a NIST curve or RSA of 2,048 to 4,096 bits. Raises KeyNotAllowed."""
    if isinstance(key, ec.EllipticCurvePublicKey) and isinstance(key.curve, _ACCEPTED_CURVES):
        return key
    if isinstance(key, rsa.RSAPublicKey):
        if not _MIN_RSA_BITS <= key.key_size <= _MAX_RSA_BITS:
            raise KeyNotAllowed(f"The RSA key has {key.key_size} bits; 2,048 to 4,096 are allowed.")
        if key.public_numbers().e < 65537:
            raise KeyNotAllowed("The RSA key's public exponent is below 65537. Create a new key.")
        return key
    raise KeyNotAllowed("The key must be ECDSA on P-256, P-384 or P-521, or RSA of 2,048 to 4,096 bits.")


def signature_hash(key: PrivateKey) -> hashes.SHA256 | hashes.SHA384 | hashes.SHA512:
    """Hash algorithm for signatures with the key, at least as strong as the key."""
    if isinstance(key, ec.EllipticCurvePrivateKey) and key.curve.key_size > 256:
        return hashes.SHA384() if key.curve.key_size == 384 else hashes.SHA512()
    return hashes.SHA256()


def key_pem(key: PrivateKey) -> bytes:
    """Unencrypted PKCS#8 PEM, for files that only the owner of the file can read."""
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def encrypted_key_pem(key: PrivateKey, passphrase: str) -> bytes:
    """PKCS#8 PEM, encrypted with a passphrase (RFC 8018 PBES2)."""
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(passphrase.encode()))


def load_encrypted_key(data: bytes, passphrase: str) -> PrivateKey:
    if len(data) > _MAX_KEY_FILE_BYTES:
        raise KeyNotAllowed(f"The file has {len(data)} bytes; the maximum for a key is {_MAX_KEY_FILE_BYTES}.")
    try:
        key = load_pem_private_key(data, passphrase.encode())
    except (ValueError, TypeError, UnsupportedAlgorithm) as exc:
        raise KeyNotAllowed("The passphrase is wrong, or the file is no encrypted PKCS#8 key in PEM.") from exc
    return _require_kind(key)


def load_key(data: bytes, *, made_here: bool = False) -> PrivateKey:
    """Load an unencrypted private key from DER or PEM.

    Set `made_here` if Admit created the key (`generate_key`) and stored it encrypted. The function then skips the check
    of RSA primes, which takes 70 ms.
    """
    load = load_pem_private_key if data.startswith(b"-----BEGIN") else load_der_private_key
    try:
        key: PrivateKeyTypes = load(data, None, unsafe_skip_rsa_key_validation=made_here)
    except (ValueError, TypeError, UnsupportedAlgorithm) as exc:
        raise KeyNotAllowed("The private key is not readable as unencrypted PKCS#8 in DER or PEM.") from exc
    return _require_kind(key)


def _require_kind(key: PrivateKeyTypes) -> PrivateKey:
    if not isinstance(key, ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey):
        raise KeyNotAllowed("The private key must be ECDSA or RSA.")
    require_acceptable(key.public_key())
    return key


def is_same_public_key(one: PublicKeyTypes, other: PublicKeyTypes) -> bool:
    return _spki(one) == _spki(other)


def public_key_digest(key: PublicKeyTypes) -> bytes:
    """SHA-256 of the SubjectPublicKeyInfo, which is the same in all certificates and requests with this key."""
    return hashlib.sha256(_spki(key)).digest()


def key_bits(key: PublicKeyTypes) -> bytes:
    """Octets of the public key's BIT STRING, which key identifiers hash (RFC 5280 4.2.1.2 (1), RFC 6960 4.1.1)."""
    outer, _ = der.read_element(_spki(key))
    *_, bits = der.iter_children(outer.content)
    return der.require_tag(bits, der.BIT_STRING).content[1:]


def _spki(key: PublicKeyTypes) -> bytes:
    return key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
