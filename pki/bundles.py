"""Certificate files for people and devices: PEM, or PKCS#12 (RFC 7292) with the chain."""

from collections.abc import Iterable, Sequence

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding, KeySerializationEncryption, PrivateFormat
from cryptography.hazmat.primitives.serialization.pkcs12 import PBES, serialize_key_and_certificates

from pki.errors import BundleNotAllowed
from pki.keys import PrivateKey, is_same_public_key

_MIN_PASSWORD_LENGTH = 8
# PBKDF2 rounds for the password. With 600,000 rounds, a phone imports the file in less than a second.
_ROUNDS = 600_000
# PBKDF2 rounds for old systems, which import slowly. Some old systems reject many more rounds.
_LEGACY_ROUNDS = 20_000


def certificates_pem(certificates: Iterable[x509.Certificate]) -> bytes:
    return b"".join(certificate.public_bytes(Encoding.PEM) for certificate in certificates)


def build_pkcs12(
    *,
    friendly_name: str,
    key: PrivateKey,
    certificate: x509.Certificate,
    chain: Sequence[x509.Certificate],
    password: str,
    legacy: bool = False,
) -> bytes:
    """Build a PKCS#12 file with a key, its certificate and the chain, encrypted with `password` (8 characters or more).

    The encryption is AES-256 in PBES2 with HMAC-SHA-256. `legacy` selects 3DES with HMAC-SHA-1, for systems that cannot
    import AES: Windows before 10 1709 and Server 2019, and many releases of Android, iOS and macOS.
    """
    if len(password) < _MIN_PASSWORD_LENGTH:
        raise BundleNotAllowed(
            f"The password has {len(password)} characters; at least {_MIN_PASSWORD_LENGTH} are needed."
        )
    if not is_same_public_key(key.public_key(), certificate.public_key()):
        raise BundleNotAllowed("The key does not belong to the certificate.")
    return serialize_key_and_certificates(
        friendly_name.encode(), key, certificate, list(chain) or None, _build_encryption(password, legacy)
    )


def _build_encryption(password: str, legacy: bool) -> KeySerializationEncryption:
    builder = PrivateFormat.PKCS12.encryption_builder()
    if legacy:
        builder = builder.kdf_rounds(_LEGACY_ROUNDS).key_cert_algorithm(PBES.PBESv1SHA1And3KeyTripleDESCBC)
        # Old systems support no other MAC algorithm.
        builder = builder.hmac_hash(hashes.SHA1())  # noqa: S303
    else:
        builder = builder.kdf_rounds(_ROUNDS).key_cert_algorithm(PBES.PBESv2SHA256AndAES256CBC)
        builder = builder.hmac_hash(hashes.SHA256())
    return builder.build(password.encode())
