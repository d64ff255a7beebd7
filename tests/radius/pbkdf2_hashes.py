"""Password hashes stored by earlier versions. Replicas may still contain them."""

import hashlib
import os
from base64 import b64encode
from functools import cache

_ITERATIONS = 10_000


@cache
def earlier_hash(password: str) -> str:
    """The hash of a password in rlm_pap's PBKDF2-Password format (RFC 8018 5.2)."""
    salt = os.urandom(16)
    digest = hashlib.pbkdf2_hmac("sha512", password.encode(), salt, _ITERATIONS)
    parts = (_ITERATIONS.to_bytes(4, "big"), salt, digest)
    return ":".join(("HMACSHA2+512", *(b64encode(part).decode() for part in parts)))
