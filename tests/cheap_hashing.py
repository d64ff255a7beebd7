"""Hashes of passwords and keys of passphrases, expensive in the product and cheap in other tests."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from cryptography.hazmat.primitives.kdf.argon2 import Argon2id

from nac.kit import passwords
from nac.onboarding.tenant_files import file_key
from pki import bundles

_SCRYPT, _ROUNDS = file_key._SCRYPT, bundles._ROUNDS


class _CheapArgon2:
    """Creates hashes at minimum cost. Existing hashes are verified at their own cost."""

    verify_phc_encoded = Argon2id.verify_phc_encoded

    def __new__(cls, *, salt: bytes, length: int, **_: Any) -> Argon2id:
        return Argon2id(salt=salt, length=length, iterations=1, lanes=1, memory_cost=8)


@contextmanager
def cheap_hashes() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(passwords, "Argon2id", _CheapArgon2)
        patch.setattr(file_key, "_SCRYPT", {**_SCRYPT, "n": 1 << 10})
        patch.setattr(bundles, "_ROUNDS", 1_000)
        yield


@contextmanager
def production_hashes() -> Iterator[None]:
    """Use the production cost, within `cheap_hashes`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(passwords, "Argon2id", Argon2id)
        patch.setattr(file_key, "_SCRYPT", _SCRYPT)
        patch.setattr(bundles, "_ROUNDS", _ROUNDS)
        yield
