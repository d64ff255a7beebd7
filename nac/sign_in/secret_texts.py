"""Secrets of people as text."""

import hashlib
import hmac
import secrets
from typing import ClassVar
from uuid import UUID

from nac.bearer import Bearer


class SignInText(Bearer):
    """What the cookie of a sign-in holds."""

    __slots__ = ()
    prefix: ClassVar[str] = "admitsession_"
    separator: ClassVar[str] = "_"
    purpose: ClassVar[bytes] = b"admit sign-in 1\0"

    def csrf_token(self) -> str:
        """What changing requests show beside the cookie: whoever cannot read an answer of ours does not know it."""
        return hmac.new(self.secret.encode(), b"admit csrf 1\0" + self.public_id.encode(), hashlib.sha256).hexdigest()


class LinkText(Bearer):
    """What a link that sets a password holds."""

    __slots__ = ()
    prefix: ClassVar[str] = "admitlink_"
    separator: ClassVar[str] = "_"
    purpose: ClassVar[bytes] = b"admit password link 1\0"


_CODE_CHARACTERS = "abcdefghijkmnpqrstuvwxyz23456789"
_CODE_LENGTH = 16
_CODE_GROUP = 4


def generate_recovery_code() -> str:
    """80 random bits, in groups that people copy from paper."""
    code = "".join(secrets.choice(_CODE_CHARACTERS) for _ in range(_CODE_LENGTH))
    return "-".join(code[at : at + _CODE_GROUP] for at in range(0, _CODE_LENGTH, _CODE_GROUP))


def hash_recovery_code(person_id: UUID, code: str) -> bytes:
    """Of a code as it was typed, with or without dashes."""
    typed = "".join(code.lower().split()).replace("-", "")
    return hashlib.sha256(b"admit recovery code 1\0" + person_id.bytes + typed.encode()).digest()
