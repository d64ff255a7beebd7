"""Password hashes: argon2id for what is set now, rlm_pap's PBKDF2 for what earlier versions stored."""

import os

from cryptography.exceptions import InvalidKey
from cryptography.hazmat.primitives.kdf.argon2 import Argon2id

# In PHC form: $argon2id$v=19$m=<KiB>,t=<passes>,p=<lanes>$<salt>$<hash> (RFC 9106).
ARGON2ID = "$argon2id$"
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
