"""Password hashes in the form of FreeRADIUS' rlm_pap (PBKDF2-Password): the module that checks them."""

import hashlib
import os
from base64 import b64encode

# Each PAP request pays for them on the radiusd thread that serves it: 10,000 take about 5 ms of CPU.
ITERATIONS = 10_000
_SALT_BYTES = 16


def hash_password(password: str) -> str:
    """HMACSHA2+512:<base64 of the iterations, u32 big-endian>:<base64 salt>:<base64 hash> (RFC 8018 5.2)."""
    salt = os.urandom(_SALT_BYTES)
    digest = hashlib.pbkdf2_hmac("sha512", password.encode(), salt, ITERATIONS)
    parts = (ITERATIONS.to_bytes(4, "big"), salt, digest)
    return ":".join(("HMACSHA2+512", *(b64encode(part).decode() for part in parts)))
