"""What a service needs in order to store a secret: `nac.secrets.Sealer.seal`, handed in by the edge."""

from typing import Protocol


class Seal(Protocol):
    def __call__(self, plaintext: bytes, context: str, /) -> bytes:
        """`context` names the row, "slot:<id>" say; the value cannot be opened under any other."""
        ...


class Unseal(Protocol):
    def __call__(self, sealed: bytes, context: str, /) -> bytes:
        """What was sealed under this context."""
        ...
