"""Types of the functions that encrypt and decrypt stored secrets. `nac.kit.secrets.Sealer` implements the protocols."""

from typing import Protocol


class Seal(Protocol):
    def __call__(self, plaintext: bytes, context: str, /) -> bytes:
        """Encrypt a secret. To decrypt the secret, the caller needs the same `context`, such as "slot:<id>"."""
        ...


class Unseal(Protocol):
    def __call__(self, sealed: bytes, context: str, /) -> bytes:
        """Decrypt a secret that was encrypted with `context`."""
        ...
