"""What a process needs to sign certificates."""

from dataclasses import dataclass
from typing import Self

from nac.secrets import MasterKeyFile, Sealer
from nac.settings import Settings


@dataclass(frozen=True, slots=True)
class Signing:
    # Opens authorities' private keys, and seals those that are made.
    sealer: Sealer
    # Where anybody is told a certificate's status and finds its authority; every certificate names it.
    public_url: str

    @classmethod
    def from_settings(cls, settings: Settings) -> Self:
        """Raises KeyFileRefused."""
        return cls(Sealer(MasterKeyFile(settings.master_key_file)), settings.public_url)
