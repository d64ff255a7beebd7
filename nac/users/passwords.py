"""Password hashes: argon2id for what is set now, PBKDF2 of earlier versions, and the NT hash that MS-CHAP needs."""

import os

from cryptography.exceptions import InvalidKey
from cryptography.hazmat.primitives.kdf.argon2 import Argon2id

# OWASP's Password Storage Cheat Sheet: 19 MiB, 2 passes, 1 lane; some 20 ms of one core.
MEMORY_KIB = 19 * 1024
PASSES = 2
LANES = 1
_SALT_BYTES = 16
_HASH_BYTES = 32


def hash_password(password: str) -> str:
    deriving = Argon2id(
        salt=os.urandom(_SALT_BYTES), length=_HASH_BYTES, iterations=PASSES, lanes=LANES, memory_cost=MEMORY_KIB
    )
    return deriving.derive_phc_encoded(password.encode())


def is_password(password: bytes, password_hash: str) -> bool:
    """Whether it is the password behind an argon2id hash; leaves the interpreter free meanwhile."""
    try:
        Argon2id.verify_phc_encoded(password, password_hash)
    except InvalidKey:
        return False
    return True


def nt_hash(password: str) -> str:
    """32 hex digits: MD4 of the password in UTF-16 (RFC 2759 8.3). OpenSSL 3 has MD4 no more by default."""
    # Loads a parser of C, which takes a tenth of the start of a process, and few processes ever come here.
    from Crypto.Hash import MD4

    return MD4.new(password.encode("utf-16-le")).hexdigest()  # noqa: S303 -- MS-CHAP knows no other
