"""Random secrets as text: a public id and the secret itself, of letters and digits that any form, URL and ASN.1 string
carries.

The public id finds the row, so that no secret is ever looked up or compared with those of others. The secret has 130
random bits: its plain SHA-256 tells nobody what it was, and a slow hash would only slow the server down.
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
_PART = re.compile(r"[a-z0-9]+")
_PUBLIC_ID_CHARACTERS = 16


@dataclass(frozen=True, slots=True)
class Bearer:
    """Whoever shows it is taken for whom it was made for. Each kind has a class of its own."""

    public_id: str
    secret: str = field(repr=False)

    prefix: ClassVar[str] = ""
    separator: ClassVar[str] = "-"
    # Keeps the digest of one kind from being one of another.
    purpose: ClassVar[bytes]

    @classmethod
    def make(cls) -> Self:
        return cls(_base32(_PUBLIC_ID_OCTETS), _base32(_SECRET_OCTETS)[:_SECRET_CHARACTERS])

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """None where this cannot be one of ours."""
        parts = text.removeprefix(cls.prefix).split(cls.separator) if text.startswith(cls.prefix) else []
        if [len(part) for part in parts] != [_PUBLIC_ID_CHARACTERS, _SECRET_CHARACTERS]:
            return None
        return cls(*parts) if all(_PART.fullmatch(part) for part in parts) else None

    def __str__(self) -> str:
        """Without the secret, for messages and logs."""
        return f"{self.prefix}{self.public_id}"

    def reveal(self) -> str:
        return f"{self.prefix}{self.public_id}{self.separator}{self.secret}"

    def digest(self) -> bytes:
        return hashlib.sha256(self.purpose + self.public_id.encode() + b"\0" + self.secret.encode()).digest()

    def is_of(self, digest: bytes) -> bool:
        """In constant time."""
        return hmac.compare_digest(self.digest(), digest)


def _base32(octets: int) -> str:
    return base64.b32encode(secrets.token_bytes(octets)).decode().rstrip("=").lower()
