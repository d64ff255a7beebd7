"""Encryption of stored secrets with a key outside the database. Depends only on `cryptography`."""

from nac.secrets.errors import (
    KeyFileRefused,
    SealedForAnotherKey,
    SealedValueMalformed,
    SealedValueRefused,
    SecretsError,
)
from nac.secrets.keys import KeyEncryptionKey, MasterKeyFile, RawKey
from nac.secrets.sealer import Sealer, rewrap

__all__ = [
    "KeyEncryptionKey",
    "KeyFileRefused",
    "MasterKeyFile",
    "RawKey",
    "SealedForAnotherKey",
    "SealedValueMalformed",
    "SealedValueRefused",
    "Sealer",
    "SecretsError",
    "rewrap",
]
