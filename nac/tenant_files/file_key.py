"""Secrets in a file: sealed with a key of a passphrase (scrypt, RFC 7914; AES-256-GCM), each for its place."""

import base64
import binascii
import hashlib
import hmac
import os
from dataclasses import dataclass
from typing import Any

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

from nac.errors import InvalidInput

SALT_BYTES = 16
_NONCE_BYTES = 12
# 64 MiB and a quarter of a second for each guess. Of format 1: a file cannot ask for others.
_SCRYPT = {"n": 1 << 16, "r": 8, "p": 1}
PASSPHRASE_CHARACTERS = (12, 1024)


class PassphraseRefused(InvalidInput):
    """The passphrase does not fit."""


def require_passphrase(passphrase: str) -> None:
    """Raises PassphraseRefused."""
    least, most = PASSPHRASE_CHARACTERS
    if not least <= len(passphrase) <= most:
        raise PassphraseRefused(
            f"It has {len(passphrase)} characters.", place="passphrase", remedy=f"Use {least} to {most} characters."
        )


@dataclass(frozen=True, slots=True)
class FileKey:
    """What a passphrase makes of a file's salt."""

    salt: bytes
    _sealing: bytes
    _signing: bytes

    @classmethod
    def make(cls, passphrase: str, salt: bytes | None = None) -> "FileKey":
        require_passphrase(passphrase)
        salt = salt or os.urandom(SALT_BYTES)
        made = Scrypt(salt=salt, length=64, **_SCRYPT).derive(passphrase.encode("utf-8", "surrogatepass"))
        return cls(salt, made[:32], made[32:])

    def seal(self, plaintext: bytes, place: str) -> str:
        nonce = os.urandom(_NONCE_BYTES)
        return base64.b64encode(nonce + AESGCM(self._sealing).encrypt(nonce, plaintext, place.encode())).decode()

    def open(self, sealed: Any, place: str) -> bytes:  # noqa: ANN401 -- whatever a file holds
        """Raises ValueError with a sentence."""
        try:
            raw = base64.b64decode(sealed, validate=True)
            return AESGCM(self._sealing).decrypt(raw[:_NONCE_BYTES], raw[_NONCE_BYTES:], place.encode())
        except (InvalidTag, TypeError, ValueError, binascii.Error) as exc:
            raise ValueError("a secret does not open: it was altered, or is of another row") from exc

    def sign(self, text: bytes) -> str:
        return hmac.digest(self._signing, text, hashlib.sha256).hex()
