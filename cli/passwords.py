"""Passwords of the database roles and of the Redis users of this installation.

Each is derived from one random seed, which is made at the first `up`, so a role that a later version adds has one too.
To change them all, delete the file and run `./admit up`.
"""

import hmac
import re
import secrets
from pathlib import Path
from typing import Literal, Self

from cli.fail import Refused
from nac.private_files import write_private

_SEED_BYTES = 32


class Passwords:
    def __init__(self, seed: bytes) -> None:
        self._seed = seed

    @classmethod
    def load_or_create(cls, path: Path) -> Self:
        """Raises Refused where the file is damaged: new passwords would lock out what runs."""
        try:
            text = path.read_text(encoding="ascii").strip()
        except FileNotFoundError:
            text = secrets.token_hex(_SEED_BYTES)
            write_private(path, text + "\n")
        if not re.fullmatch(rf"[0-9a-f]{{{2 * _SEED_BYTES}}}", text):
            raise Refused(
                "The seed of the passwords is damaged.", place=str(path), remedy="Delete it and run ./admit up."
            )
        return cls(bytes.fromhex(text))

    def get(self, server: Literal["postgresql", "redis"], name: str) -> str:
        """64 hex digits: a password that needs no quoting anywhere."""
        return hmac.new(self._seed, f"admit password 1 {server} {name}".encode(), "sha256").hexdigest()
