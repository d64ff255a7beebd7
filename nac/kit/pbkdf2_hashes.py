"""PBKDF2 hashes of passwords that earlier versions stored. While radiusd verifies a PBKDF2 hash, other requests
wait."""

import base64
import re

_PBKDF2_HASH = re.compile(
    r"HMACSHA2\+512:([A-Za-z0-9+/]{6}==):[A-Za-z0-9+/]{8,88}={0,2}:[A-Za-z0-9+/]{20,88}={0,2}", re.ASCII
)
# Number of rounds that earlier versions used.
MAX_ROUNDS = 10_000


def is_pbkdf2_hash(password_hash: str) -> bool:
    """Return whether the text is a PBKDF2 hash with at most `MAX_ROUNDS` rounds."""
    found = _PBKDF2_HASH.fullmatch(password_hash)
    return found is not None and int.from_bytes(base64.b64decode(found[1])) <= MAX_ROUNDS
