"""Password hashes: argon2id, PBKDF2 hashes that earlier versions stored, and the NT hash for MS-CHAP."""

import os
import re

from cryptography.exceptions import InvalidKey
from cryptography.hazmat.primitives.kdf.argon2 import Argon2id

from nac.kit.errors import InvalidInput
from nac.kit.pbkdf2_hashes import is_pbkdf2_hash

# OWASP Password Storage Cheat Sheet: 19 MiB, 2 passes, 1 lane. A hash takes about 20 ms of one CPU core.
MEMORY_KIB = 19 * 1024
PASSES = 2
LANES = 1
_SALT_BYTES = 16
_HASH_BYTES = 32
_PHC = re.compile(
    r"\$argon2id\$v=19\$m=(?P<memory>[0-9]{1,9}),t=(?P<passes>[0-9]{1,9}),p=(?P<lanes>[0-9]{1,9})"
    r"\$[A-Za-z0-9+/]{11,86}\$[A-Za-z0-9+/]{22,86}",
    re.ASCII,
)


def hash_password(password: str) -> str:
    deriving = Argon2id(
        salt=os.urandom(_SALT_BYTES), length=_HASH_BYTES, iterations=PASSES, lanes=LANES, memory_cost=MEMORY_KIB
    )
    return deriving.derive_phc_encoded(password.encode())


def verify_password(password: bytes, password_hash: str) -> bool:
    """Return whether the password matches an argon2id hash. Releases the GIL.

    Returns False if the check would need more memory or time than for Admit's own hashes. A hash from another
    installation can have such parameters.
    """
    if not _is_affordable(password_hash):
        return False
    try:
        Argon2id.verify_phc_encoded(password, password_hash)
    except InvalidKey:
        return False
    return True


def require_stored_hash(given: bytes) -> str:
    """Return a password hash from another installation as text. The hash can be empty.

    Raises InvalidInput if the format is unknown, or if a check of the hash would need too much memory or time.
    """
    password_hash = given.decode("ascii", "replace")
    if password_hash and not _is_affordable(password_hash) and not is_pbkdf2_hash(password_hash):
        raise InvalidInput("Unsupported format or cost of a password hash.", place="users")
    return password_hash


def _is_affordable(password_hash: str) -> bool:
    found = _PHC.fullmatch(password_hash)
    return (
        found is not None
        and int(found["memory"]) <= MEMORY_KIB
        and int(found["passes"]) <= PASSES
        and int(found["lanes"]) <= LANES
    )


def compute_nt_hash(password: str) -> str:
    """Return the NT hash in 32 hex digits. The NT hash is the MD4 digest of the password in UTF-16 (RFC 2759 8.3).

    Uses the MD4 of PyCryptodome, because OpenSSL 3 disables MD4 by default.
    """
    # Import the library only here, because the import makes the start of a process 10 % slower.
    from Crypto.Hash import MD4

    return MD4.new(password.encode("utf-16-le")).hexdigest()  # noqa: S303 -- MS-CHAP requires it
