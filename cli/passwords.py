"""Passwords of the database roles and Redis users of this installation.

Each password is derived from a random seed, which the first `up` creates. To change all passwords, delete the file with
the seed and run `./admit up`.
"""

import hmac
import re
import secrets
from pathlib import Path
from typing import Literal, Self

from cli.errors import Refused
from nac.kit.private_files import write_private

_SEED_BYTES = 32


class Passwords:
    def __init__(self, seed: bytes) -> None:
        self._seed = seed

    @classmethod
    def load_or_create(cls, path: Path) -> Self:
        """Read the seed, or create a seed.

        Raises Refused if the file is damaged, because new passwords would lock out running processes.
        """
        try:
            text = path.read_text(encoding="ascii").strip()
        except FileNotFoundError:
            text = secrets.token_hex(_SEED_BYTES)
            write_private(path, text + "\n")
        if not re.fullmatch(rf"[0-9a-f]{{{2 * _SEED_BYTES}}}", text):
            raise Refused(
                "The file with the password seed is damaged.",
                place=str(path),
                remedy="Delete the file and run ./admit up.",
            )
        return cls(bytes.fromhex(text))

    def get(self, server: Literal["postgresql", "redis"], name: str) -> str:
        """Return a password of 64 hex digits, which needs no quoting in any file."""
        return hmac.new(self._seed, f"admit password 1 {server} {name}".encode(), "sha256").hexdigest()
