"""One-time secrets as text: `<public id>-<secret>`, of letters and digits that any form, URL and ASN.1 string carries.

The public id finds the row, so that no secret is ever looked up or compared with those of others. The secret has 130
random bits: its plain SHA-256 tells nobody what it was, and a slow hash would only slow the server down.
"""

import base64
import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass, field
from typing import Self

_PUBLIC_ID_OCTETS = 10
_SECRET_CHARACTERS = 26
_SECRET_OCTETS = 17
_TOKEN = re.compile(r"(?P<public_id>[a-z0-9]{16})-(?P<secret>[a-z0-9]{26})")
_PURPOSE = b"admit enrolment secret 1\0"


@dataclass(frozen=True, slots=True)
class Token:
    public_id: str
    secret: str = field(repr=False)

    @classmethod
    def make(cls) -> Self:
        return cls(_base32(_PUBLIC_ID_OCTETS), _base32(_SECRET_OCTETS)[:_SECRET_CHARACTERS])

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """None where this cannot be one of ours."""
        match = _TOKEN.fullmatch(text)
        return cls(match["public_id"], match["secret"]) if match else None

    def __str__(self) -> str:
        """Without the secret, for messages and logs."""
        return self.public_id

    def reveal(self) -> str:
        return f"{self.public_id}-{self.secret}"


def secret_digest(public_id: str, secret: str) -> bytes:
    return hashlib.sha256(_PURPOSE + public_id.encode() + b"\0" + secret.encode()).digest()


def is_secret(public_id: str, secret: str, digest: bytes) -> bool:
    """In constant time."""
    return hmac.compare_digest(secret_digest(public_id, secret), digest)


def _base32(octets: int) -> str:
    return base64.b32encode(secrets.token_bytes(octets)).decode().rstrip("=").lower()
