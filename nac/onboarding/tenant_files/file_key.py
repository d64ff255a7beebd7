"""Encrypts the secrets in a tenant file with a passphrase (scrypt, RFC 7914; AES-256-GCM).

The encryption binds each secret to its row and column, so that nobody can exchange secrets in a file.
"""

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

from nac.kit.errors import InvalidInput

SALT_BYTES = 16
_NONCE_BYTES = 12
# Each guess of the passphrase takes 64 MiB and 0.25 s. Format 1 fixes these parameters, so a file cannot weaken them.
_SCRYPT = {"n": 1 << 16, "r": 8, "p": 1}
PASSPHRASE_CHARACTERS = (12, 1024)


class PassphraseRefused(InvalidInput):
    """The passphrase is wrong or invalid."""


def require_passphrase(passphrase: str) -> None:
    """Raise PassphraseRefused if the passphrase is too short or too long."""
    least, most = PASSPHRASE_CHARACTERS
    if not least <= len(passphrase) <= most:
        raise PassphraseRefused(
            f"The passphrase has {len(passphrase)} characters.",
            place="passphrase",
            remedy=f"Use {least} to {most} characters.",
        )


@dataclass(frozen=True, slots=True)
class FileKey:
    """Keys for encryption and signature, derived from a passphrase and the file's salt."""

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
        """Decrypt a secret. `place` identifies the row and column of the secret, as `secret_place` returns it.

        Raises ValueError with a message for users.
        """
        try:
            raw = base64.b64decode(sealed, validate=True)
            return AESGCM(self._sealing).decrypt(raw[:_NONCE_BYTES], raw[_NONCE_BYTES:], place.encode())
        except (InvalidTag, TypeError, ValueError, binascii.Error) as exc:
            raise ValueError("a secret cannot be decrypted: the secret was changed or belongs to another row") from exc

    def sign(self, text: bytes) -> str:
        return hmac.digest(self._signing, text, hashlib.sha256).hex()
