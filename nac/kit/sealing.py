"""Protocols of functions that encrypt stored secrets. `nac.kit.secrets.Sealer` implements the protocols."""

from typing import Protocol


class Seal(Protocol):
    def __call__(self, plaintext: bytes, context: str, /) -> bytes:
        """Encrypt a secret. Only the same `context`, such as "slot:<id>", can decrypt it."""
        ...


class Unseal(Protocol):
    def __call__(self, sealed: bytes, context: str, /) -> bytes:
        """Decrypt a secret that was encrypted with this context."""
        ...
