"""Operator tokens: short-lived tokens with which the command line sends requests to the API on the same machine.

The command line signs a new token with the operator key for each request. A user who can read the key has all
permissions. This module imports only the standard library, so that the command line starts fast.
"""

import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from nac.kit.clock import epoch_seconds

PREFIX: Final = "admit-operator~"
# All tokens that a user signs in the same minute are equal, so that the API's rate limit counts the requests together.
_PERIOD_SECONDS: Final = 60
_VALID_PERIODS: Final = 2
_KEY_OCTETS: Final = 32
_OTHER_CHARACTERS = re.compile(r"[^A-Za-z0-9._-]")
_PATTERN = re.compile(r"admit-operator~(?P<user>[A-Za-z0-9._-]{1,64})~(?P<expiry>[0-9]{1,12})~(?P<mac>[0-9a-f]{64})")


def get_key_file(var_dir: Path) -> Path:
    return var_dir / "keys" / "operator.key"


def make_key() -> str:
    """Content of a new key file."""
    return secrets.token_hex(_KEY_OCTETS) + "\n"


@dataclass(frozen=True, slots=True)
class OperatorToken:
    """Token with the user's operating system account, an expiry (Unix time), and the HMAC-SHA256 of both."""

    user: str
    expires_at: int
    mac: str

    @classmethod
    def make(cls, key: bytes, *, user: str) -> Self:
        name = _OTHER_CHARACTERS.sub("_", user)[:64] or "_"
        expires_at = (epoch_seconds() // _PERIOD_SECONDS + _VALID_PERIODS) * _PERIOD_SECONDS
        return cls(name, expires_at, _compute_mac(key, name, expires_at))

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Parse a token. Returns None if the text is not an operator token."""
        found = _PATTERN.fullmatch(text)
        return None if found is None else cls(found["user"], int(found["expiry"]), found["mac"])

    def reveal(self) -> str:
        return f"{PREFIX}{self.user}~{self.expires_at}~{self.mac}"

    def is_valid(self, key: bytes) -> bool:
        """Whether `key` signed the token and the token has not expired. Compares in constant time."""
        is_authentic = hmac.compare_digest(self.mac, _compute_mac(key, self.user, self.expires_at))
        return is_authentic and self.expires_at - _VALID_PERIODS * _PERIOD_SECONDS <= epoch_seconds() < self.expires_at


def read_key(file: Path) -> bytes:
    """Read the key that signs operator tokens.

    Raises OSError if the file is not readable, and ValueError if the file has no valid key.
    """
    key = bytes.fromhex(file.read_text("ascii"))
    if len(key) != _KEY_OCTETS:
        raise ValueError(f"{file} is not an operator key")
    return key


def _compute_mac(key: bytes, user: str, expires_at: int) -> str:
    return hmac.new(key, f"admit operator token 1\0{user}\0{expires_at}".encode(), hashlib.sha256).hexdigest()
