"""Password hashes in the forms that FreeRADIUS checks: PBKDF2-Password of rlm_pap, NT-Password of rlm_mschap."""

import hashlib
import os
from base64 import b64encode

from Crypto.Hash import MD4

# Each PAP request pays for them on the radiusd thread that serves it: 10,000 take about 5 ms of CPU.
ITERATIONS = 10_000
_SALT_BYTES = 16


def hash_password(password: str) -> str:
    """HMACSHA2+512:<base64 of the iterations, u32 big-endian>:<base64 salt>:<base64 hash> (RFC 8018 5.2)."""
    salt = os.urandom(_SALT_BYTES)
    digest = hashlib.pbkdf2_hmac("sha512", password.encode(), salt, ITERATIONS)
    parts = (ITERATIONS.to_bytes(4, "big"), salt, digest)
    return ":".join(("HMACSHA2+512", *(b64encode(part).decode() for part in parts)))


def nt_hash(password: str) -> str:
    """32 hex digits: MD4 of the password in UTF-16 (RFC 2759 8.3). OpenSSL 3 has MD4 no more by default."""
    return MD4.new(password.encode("utf-16-le")).hexdigest()  # noqa: S303 -- MS-CHAP knows no other
