"""Random credentials as text, such as API tokens. A credential consists of a public id and a secret. Both have only
letters and digits, so they need no quoting in URLs, headers and commands.

Admit looks up a database row by the public id, and compares the secret with the digest in this row. The secret has
130 random bits. A plain SHA-256 digest is therefore safe, and a slow hash is unnecessary.
"""

import base64
import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass, field
from typing import ClassVar, Self

_PUBLIC_ID_OCTETS = 10
_SECRET_OCTETS = 17
_SECRET_CHARACTERS = 26
_PART_PATTERN = re.compile(r"[a-z0-9]+")
_PUBLIC_ID_CHARACTERS = 16


@dataclass(frozen=True, slots=True)
class BearerSecret:
    """A credential: public id and secret. Each kind of credential, such as API tokens, has its own subclass."""

    public_id: str
    secret: str = field(repr=False)

    prefix: ClassVar[str] = ""
    separator: ClassVar[str] = "-"
    # Text in each digest, so that a digest of one kind of credential never matches another kind.
    purpose: ClassVar[bytes]

    @classmethod
    def make(cls) -> Self:
        return cls(_base32(_PUBLIC_ID_OCTETS), _base32(_SECRET_OCTETS)[:_SECRET_CHARACTERS])

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Parse a credential. Returns None if the text is not a credential of this kind."""
        parts = text.removeprefix(cls.prefix).split(cls.separator) if text.startswith(cls.prefix) else []
        if [len(part) for part in parts] != [_PUBLIC_ID_CHARACTERS, _SECRET_CHARACTERS]:
            return None
        return cls(*parts) if all(_PART_PATTERN.fullmatch(part) for part in parts) else None

    def __str__(self) -> str:
        """Return the prefix and the public id, for messages and logs. The result does not contain the secret."""
        return f"{self.prefix}{self.public_id}"

    def reveal(self) -> str:
        return f"{self.prefix}{self.public_id}{self.separator}{self.secret}"

    def digest(self) -> bytes:
        return hashlib.sha256(self.purpose + self.public_id.encode() + b"\0" + self.secret.encode()).digest()

    def is_of(self, digest: bytes) -> bool:
        """Return whether the secret has this digest. Compares in constant time."""
        return hmac.compare_digest(self.digest(), digest)


def _base32(octets: int) -> str:
    return base64.b32encode(secrets.token_bytes(octets)).decode().rstrip("=").lower()
