"""PBKDF2 hashes that earlier versions made, which radiusd counts in a thread that others wait for."""

import base64
import re

_PBKDF2_HASH = re.compile(
    r"HMACSHA2\+512:([A-Za-z0-9+/]{6}==):[A-Za-z0-9+/]{8,88}={0,2}:[A-Za-z0-9+/]{20,88}={0,2}", re.ASCII
)
# As many as were made.
MAX_ROUNDS = 10_000


def is_pbkdf2_hash(password_hash: str) -> bool:
    """Whether it is one, and costs no more than those did."""
    found = _PBKDF2_HASH.fullmatch(password_hash)
    return found is not None and int.from_bytes(base64.b64decode(found[1])) <= MAX_ROUNDS
