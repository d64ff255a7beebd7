"""PBKDF2 hashes of earlier versions. radiusd verifies them in a thread that other requests wait for."""

import base64
import re

_PBKDF2_HASH = re.compile(
    r"HMACSHA2\+512:([A-Za-z0-9+/]{6}==):[A-Za-z0-9+/]{8,88}={0,2}:[A-Za-z0-9+/]{20,88}={0,2}", re.ASCII
)
# Rounds that earlier versions used.
MAX_ROUNDS = 10_000


def is_pbkdf2_hash(password_hash: str) -> bool:
    """Return whether it is such a hash and costs no more than `MAX_ROUNDS`."""
    found = _PBKDF2_HASH.fullmatch(password_hash)
    return found is not None and int.from_bytes(base64.b64decode(found[1])) <= MAX_ROUNDS
