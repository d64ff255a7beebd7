"""Protocols for storing secrets, implemented by `nac.kit.secrets.Sealer`."""

from typing import Protocol


class Seal(Protocol):
    def __call__(self, plaintext: bytes, context: str, /) -> bytes:
        """Seal a secret. It can only be opened with the same `context`, such as "slot:<id>"."""
        ...


class Unseal(Protocol):
    def __call__(self, sealed: bytes, context: str, /) -> bytes:
        """Open a secret that was sealed in this context."""
        ...
