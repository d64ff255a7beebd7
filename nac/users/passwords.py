"""Password hashes: argon2id for what is set now, PBKDF2 of earlier versions, and the NT hash that MS-CHAP needs."""

import os
import re

from cryptography.exceptions import InvalidKey
from cryptography.hazmat.primitives.kdf.argon2 import Argon2id

from nac.errors import InvalidInput
from nac.users.pbkdf2_hashes import is_pbkdf2_hash

# OWASP's Password Storage Cheat Sheet: 19 MiB, 2 passes, 1 lane; some 20 ms of one core.
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
    """Whether it is the password behind an argon2id hash; leaves the interpreter free meanwhile.

    False of a hash that costs more than those made here, untried: it comes from outside.
    """
    if not _is_affordable(password_hash):
        return False
    try:
        Argon2id.verify_phc_encoded(password, password_hash)
    except InvalidKey:
        return False
    return True


def require_stored_hash(given: bytes) -> str:
    """Of what another installation stored: a hash made as here, or cheaper, or ""; raises InvalidInput."""
    text = given.decode("ascii", "replace")
    if text and not _is_affordable(text) and not is_pbkdf2_hash(text):
        raise InvalidInput("A password's hash is of no form and cost that is made here.", place="users")
    return text


def _is_affordable(password_hash: str) -> bool:
    found = _PHC.fullmatch(password_hash)
    return (
        found is not None
        and int(found["memory"]) <= MEMORY_KIB
        and int(found["passes"]) <= PASSES
        and int(found["lanes"]) <= LANES
    )


def compute_nt_hash(password: str) -> str:
    """32 hex digits: MD4 of the password in UTF-16 (RFC 2759 8.3). OpenSSL 3 has MD4 no more by default."""
    # Loads a parser of C, which takes a tenth of the start of a process, and few processes ever come here.
    from Crypto.Hash import MD4

    return MD4.new(password.encode("utf-16-le")).hexdigest()  # noqa: S303 -- MS-CHAP knows no other
