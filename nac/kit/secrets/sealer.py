"""Envelope encryption. A random data key encrypts each value. A key encryption key encrypts the data key.

A sealed value has format 1:

    1 byte   0x01
    1 byte   length of the key id, then the key id
    2 bytes  length of the wrapped data key (big-endian), then the wrapped data key
    12 bytes nonce, then AES-256-GCM ciphertext and tag

The context (such as "slot:<id>") is authenticated but not stored. A value that was moved to another row can therefore
not be opened. The header is not authenticated, so `rewrap` can replace the wrapped data key without decrypting the
value.
"""

import secrets
from typing import NamedTuple

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from nac.kit.secrets.keys import (
    KEY_BYTES,
    NONCE_BYTES,
    KeyEncryptionKey,
    SealedForAnotherKey,
    SealedValueMalformed,
    SealedValueRefused,
)

_FORMAT = 1
_TAG_BYTES = 16
_PURPOSE = b"admit sealed value 1\0"


class _SealedParts(NamedTuple):
    key_id: bytes
    wrapped: bytes
    nonce: bytes
    ciphertext: bytes


class Sealer:
    """Encrypts values with `key`. Decrypts values of `key` and of the `retired` keys."""

    def __init__(self, key: KeyEncryptionKey, *, retired: tuple[KeyEncryptionKey, ...] = ()) -> None:
        self._key = key
        self._keys = {known.key_id: known for known in (*retired, key)}

    def __repr__(self) -> str:
        return f"Sealer(key_id={self._key.key_id.hex()})"

    def seal(self, plaintext: bytes, context: str) -> bytes:
        data_key = secrets.token_bytes(KEY_BYTES)
        nonce = secrets.token_bytes(NONCE_BYTES)
        ciphertext = AESGCM(data_key).encrypt(nonce, plaintext, _associated_data(context))
        return _encode_parts(_SealedParts(self._key.key_id, self._key.wrap(data_key), nonce, ciphertext))

    def open(self, sealed: bytes, context: str) -> bytes:
        """Return the plaintext. Raises SealedValueMalformed, SealedForAnotherKey or SealedValueRefused."""
        parts = _decode_parts(sealed)
        key = self._keys.get(parts.key_id)
        if key is None:
            raise SealedForAnotherKey(
                f"The value was sealed with master key {parts.key_id.hex()}, but this process has"
                f" {', '.join(known.hex() for known in self._keys)}.",
                place=context,
                remedy="Set ADMIT_MASTER_KEY_FILE to the key of this database.",
            )
        try:
            return AESGCM(key.unwrap(parts.wrapped)).decrypt(parts.nonce, parts.ciphertext, _associated_data(context))
        except InvalidTag as exc:
            raise SealedValueRefused(
                "The sealed value was changed or belongs to another row.",
                place=context,
                remedy="Restore the row from a backup, or set the secret again.",
            ) from exc


def rewrap(sealed: bytes, *, old: KeyEncryptionKey, new: KeyEncryptionKey) -> bytes:
    """Return the sealed value with its data key encrypted by the new master key.

    Decrypts only the data key, not the value.
    """
    parts = _decode_parts(sealed)
    if parts.key_id == new.key_id:
        return sealed
    if parts.key_id != old.key_id:
        raise SealedForAnotherKey(
            f"The value was sealed with master key {parts.key_id.hex()}, not with {old.key_id.hex()}."
        )
    return _encode_parts(parts._replace(key_id=new.key_id, wrapped=new.wrap(old.unwrap(parts.wrapped))))


def _associated_data(context: str) -> bytes:
    if not context:
        raise ValueError("a sealed value needs a context")
    return _PURPOSE + context.encode()


def _encode_parts(parts: _SealedParts) -> bytes:
    header = bytes((_FORMAT, len(parts.key_id))) + parts.key_id
    return header + len(parts.wrapped).to_bytes(2) + parts.wrapped + parts.nonce + parts.ciphertext


def _decode_parts(sealed: bytes) -> _SealedParts:
    if not sealed or sealed[0] != _FORMAT:
        raise SealedValueMalformed("The sealed value is empty or has an unknown format.")
    reader = _SealedReader(sealed, 1)
    key_id = reader.take(int.from_bytes(reader.take(1)))
    wrapped = reader.take(int.from_bytes(reader.take(2)))
    parts = _SealedParts(key_id, wrapped, reader.take(NONCE_BYTES), reader.rest())
    if len(parts.ciphertext) < _TAG_BYTES:
        raise SealedValueMalformed("The sealed value is truncated.")
    return parts


class _SealedReader:
    def __init__(self, data: bytes, at: int) -> None:
        self._data = data
        self._at = at

    def take(self, length: int) -> bytes:
        taken = self._data[self._at : self._at + length]
        if len(taken) < length:
            raise SealedValueMalformed("The sealed value is truncated.")
        self._at += length
        return taken

    def rest(self) -> bytes:
        return self._data[self._at :]
