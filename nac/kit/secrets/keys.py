"""Key encryption keys. The master key is in a file. A KMS or PKCS#11 token could implement `KeyEncryptionKey`."""

import hashlib
import os
import resource
import secrets
import stat
from pathlib import Path
from typing import Protocol, Self

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from nac.kit.errors import AdmitError

KEY_BYTES = 32
NONCE_BYTES = 12
_ID_BYTES = 8
_WRAP_PURPOSE = b"admit data key 1"


class SecretsError(AdmitError):
    """A secret cannot be sealed or opened."""


class KeyFileRefused(SecretsError):
    """The master key file cannot be used."""


class SealedValueMalformed(SecretsError):
    """The sealed value is truncated or has an unknown format."""


class SealedForAnotherKey(SecretsError):
    """The value was sealed with another master key."""


class SealedValueRefused(SecretsError):
    """The sealed value was changed, or belongs to another row."""


class KeyEncryptionKey(Protocol):
    """Key that encrypts short data keys. `key_id` (at most 255 bytes) identifies the key without revealing it."""

    @property
    def key_id(self) -> bytes: ...

    def wrap(self, data_key: bytes) -> bytes: ...

    def unwrap(self, wrapped: bytes) -> bytes:
        """Decrypt a data key. Raises SealedValueRefused if another key encrypted the data key, or if the data key
        was changed."""


class RawKey:
    """A key of 32 bytes in memory. Encrypts with AES-256-GCM and a random nonce."""

    def __init__(self, key: bytes) -> None:
        if len(key) != KEY_BYTES:
            raise ValueError(f"a key must have {KEY_BYTES} bytes, not {len(key)}")
        self._cipher = AESGCM(key)
        self._key_id = hashlib.sha256(b"admit key id 1" + key).digest()[:_ID_BYTES]

    def __repr__(self) -> str:
        return f"{type(self).__name__}(key_id={self._key_id.hex()})"

    @property
    def key_id(self) -> bytes:
        return self._key_id

    def wrap(self, data_key: bytes) -> bytes:
        nonce = secrets.token_bytes(NONCE_BYTES)
        return nonce + self._cipher.encrypt(nonce, data_key, _WRAP_PURPOSE + self._key_id)

    def unwrap(self, wrapped: bytes) -> bytes:
        nonce, ciphertext = wrapped[:NONCE_BYTES], wrapped[NONCE_BYTES:]
        try:
            return self._cipher.decrypt(nonce, ciphertext, _WRAP_PURPOSE + self._key_id)
        except (InvalidTag, ValueError) as exc:
            raise SealedValueRefused("The data key of a sealed value was changed.") from exc


class MasterKeyFile(RawKey):
    """Key in a file of 64 hex digits. Only the owner can read the file.

    If root owns the file, a group may also read the file.
    """

    def __init__(self, path: Path) -> None:
        # Disable core dumps, which would contain this key and decrypted secrets.
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        super().__init__(_read_key_file(path))
        self.path = path

    @classmethod
    def create(cls, path: Path) -> Self:
        """Create a file with a random key. Raises KeyFileRefused if the file exists, so that its key is not lost."""
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        except FileExistsError as exc:
            raise KeyFileRefused(
                "The master key file already exists.",
                place=str(path),
                remedy="Keep the existing key file: without this key, all sealed secrets are lost.",
            ) from exc
        with os.fdopen(descriptor, "w") as file:
            file.write(secrets.token_hex(KEY_BYTES) + "\n")
            file.flush()
            os.fsync(file.fileno())
        _sync_folder(path.parent)
        return cls(path)

    @classmethod
    def load_or_create(cls, path: Path) -> Self:
        return cls(path) if path.exists() else cls.create(path)


def _read_key_file(path: Path) -> bytes:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as exc:
        raise KeyFileRefused(
            f"The master key cannot be opened: {exc.strerror}.",
            place=str(path),
            remedy="Check ADMIT_MASTER_KEY_FILE.",
        ) from exc
    try:
        _require_private(os.fstat(descriptor), path)
        text = os.read(descriptor, 4 * KEY_BYTES)
    finally:
        os.close(descriptor)
    try:
        key = bytes.fromhex(text.decode("ascii").strip())
    except ValueError:
        # Do not chain the exception: its message can contain the key.
        key = b""
    if len(key) != KEY_BYTES:
        raise KeyFileRefused(f"The master key must be {2 * KEY_BYTES} hex digits.", place=str(path))
    return key


def _require_private(found: os.stat_result, path: Path) -> None:
    mode = found.st_mode
    if not stat.S_ISREG(mode):
        raise KeyFileRefused("The master key must be a regular file.", place=str(path))
    # If root owns the file, a group may read it. Several system users can then share the key.
    if mode & (0o037 if found.st_uid == 0 else 0o077):
        raise KeyFileRefused(
            f"Other users can access the master key (mode {stat.S_IMODE(mode):04o}).",
            place=str(path),
            remedy=f"chmod 600 {path}",
        )


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
