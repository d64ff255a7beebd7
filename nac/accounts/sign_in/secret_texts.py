"""Texts of secrets: the sign-in cookie, password links and recovery codes."""

import hashlib
import hmac
import secrets
from typing import ClassVar
from uuid import UUID

from nac.kit.bearer_secret import BearerSecret


class SignInText(BearerSecret):
    """Value of the sign-in cookie."""

    __slots__ = ()
    prefix: ClassVar[str] = "admitsession_"
    separator: ClassVar[str] = "_"
    purpose: ClassVar[bytes] = b"admit sign-in 1\0"

    def csrf_token(self) -> str:
        """Token against cross-site request forgery (CSRF).

        Requests that change data send the token in addition to the cookie. Other sites cannot read the token.
        """
        return hmac.new(self.secret.encode(), b"admit csrf 1\0" + self.public_id.encode(), hashlib.sha256).hexdigest()


class LinkText(BearerSecret):
    """Token in a link that sets a password."""

    __slots__ = ()
    prefix: ClassVar[str] = "admitlink_"
    separator: ClassVar[str] = "_"
    purpose: ClassVar[bytes] = b"admit password link 1\0"


_CODE_CHARACTERS = "abcdefghijkmnpqrstuvwxyz23456789"
_CODE_LENGTH = 16
_CODE_GROUP = 4


def generate_recovery_code() -> str:
    """Code of 80 random bits, in groups of four characters."""
    code = "".join(secrets.choice(_CODE_CHARACTERS) for _ in range(_CODE_LENGTH))
    return "-".join(code[at : at + _CODE_GROUP] for at in range(0, _CODE_LENGTH, _CODE_GROUP))


def hash_recovery_code(person_id: UUID, code: str) -> bytes:
    """Digest of a recovery code. Ignores case, spaces and dashes in the typed code."""
    typed = "".join(code.lower().split()).replace("-", "")
    return hashlib.sha256(b"admit recovery code 1\0" + person_id.bytes + typed.encode()).digest()
