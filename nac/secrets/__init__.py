"""Secrets at rest: sealed with a key that is not in the database. Needs nothing but `cryptography`."""

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
