"""What a process needs to sign certificates; the only way to an authority's private key."""

from dataclasses import dataclass
from typing import NamedTuple, Self
from uuid import UUID

from nac.certificates.errors import AuthorityKeyAway, refusals
from nac.models import CertificateAuthority
from nac.secrets import MasterKeyFile, Sealer
from nac.settings import Settings
from pki.keys import KeyKind, PrivateKey, generate_key, key_pem, load_key


class AuthorityKey(NamedTuple):
    key: PrivateKey
    # What the authority's row keeps, to find the key again.
    sealed: bytes


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

    def new_authority_key(self, kind: KeyKind, *, authority_id: UUID) -> AuthorityKey:
        """A new key for the authority that will have this id."""
        key = generate_key(kind)
        return AuthorityKey(key, self.sealer.seal(key_pem(key), _context(authority_id)))

    def authority_key(self, authority: CertificateAuthority) -> PrivateKey:
        """Raises AuthorityKeyAway where the key is not kept here."""
        if authority.key_sealed is None:
            raise AuthorityKeyAway(f"The key of {authority.name} is not here.", place="authority")
        with refusals():
            return load_key(self.sealer.open(authority.key_sealed, _context(authority.id)))


def _context(authority_id: UUID) -> str:
    return f"authority:{authority_id}"
