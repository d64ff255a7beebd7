"""Encryption of stored secrets with a key outside the database. The only external library is `cryptography`."""

from nac.kit.secrets.keys import (
    KeyEncryptionKey,
    KeyFileRefused,
    MasterKeyFile,
    RawKey,
    SealedForAnotherKey,
    SealedValueMalformed,
    SealedValueRefused,
    SecretsError,
)
from nac.kit.secrets.sealer import Sealer, rewrap

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
