"""What a process needs to sign certificates; the only way to an authority's private key.

A key is in one of two stores: sealed in the authority's row (under the master key, which is a file), or in a PKCS#11
token, where the row seals its address (RFC 7512) in place of the key.
"""

import stat
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple, Self
from urllib.parse import quote_from_bytes, unquote_to_bytes
from uuid import UUID

from cryptography import x509

from nac.certificates.errors import AuthorityKeyAway, KeyStoreRefused, refusals
from nac.certificates.profiles import KeyStoreChoice, KeyStoreName
from nac.models import CertificateAuthority
from nac.secrets import MasterKeyFile, Sealer
from nac.settings import Settings
from pki.issuance import Issuer
from pki.keys import KeyKind, PrivateKey, generate_key, key_pem, load_key
from pki.pkcs11_tokens import Pkcs11Token

_URI = b"pkcs11:"


class AuthorityKey(NamedTuple):
    key: PrivateKey
    store: KeyStoreName
    # What the authority's row keeps, to find the key again.
    sealed: bytes


@dataclass(frozen=True, slots=True)
class Signing:
    # Opens authorities' private keys, and seals those that are made.
    sealer: Sealer
    # Where anybody is told a certificate's status and finds its authority; every certificate names it.
    public_url: str
    # Keys of new authorities are made here unless their tenant says otherwise; those of both stores can be used.
    key_store: KeyStoreName = "sealed"
    token: Pkcs11Token | None = None

    @classmethod
    def from_settings(cls, settings: Settings) -> Self:
        """Raises KeyFileRefused, or KeyStoreRefused for the file of the token's PIN."""
        token = None
        if settings.pkcs11_module is not None and settings.pkcs11_pin_file is not None:
            token = _token(settings.pkcs11_module, settings.pkcs11_token, settings.pkcs11_pin_file)
        sealer = Sealer(MasterKeyFile(settings.master_key_file))
        return cls(sealer, settings.public_url, settings.authority_key_store, token)

    def new_authority_key(self, kind: KeyKind, *, authority_id: UUID, store: KeyStoreChoice = "") -> AuthorityKey:
        """A new key for the authority that will have this id. `store` "" leaves its place to the platform."""
        chosen = store or self.key_store
        if chosen == "sealed":
            key = generate_key(kind)
            return AuthorityKey(key, chosen, self.seal_authority_key(key, authority_id=authority_id))
        with refusals():
            key = self._require_token().generate(kind, key_id=authority_id.bytes, label=f"admit {authority_id}")
        address = _URI + f"id={quote_from_bytes(authority_id.bytes, safe='')};type=private".encode()
        return AuthorityKey(key, chosen, self.sealer.seal(address, _context(authority_id)))

    def seal_authority_key(self, key: PrivateKey, *, authority_id: UUID) -> bytes:
        """For the authority's row."""
        return self.sealer.seal(key_pem(key), _context(authority_id))

    def authority_key(self, authority: CertificateAuthority) -> PrivateKey:
        """Raises AuthorityKeyAway where the key is not kept here, KeyStoreRefused or KeyStoreUnavailable."""
        if authority.key_sealed is None:
            raise AuthorityKeyAway(
                f"The key of {authority.name} is not here.",
                place="authority",
                remedy="Bring it back: ./admit ca import-root-key",
            )
        opened = self.sealer.open(authority.key_sealed, _context(authority.id))
        with refusals():
            return self._require_token().key(_key_id(opened)) if opened.startswith(_URI) else load_key(opened)

    def _require_token(self) -> Pkcs11Token:
        if self.token is None:
            raise KeyStoreRefused(
                "No PKCS#11 token is configured, but the key of an authority is in one.",
                place="key store",
                remedy="Set ADMIT_PKCS11_MODULE, ADMIT_PKCS11_TOKEN and ADMIT_PKCS11_PIN_FILE.",
            )
        return self.token


def issuer_of(authority: CertificateAuthority, signing: Signing) -> Issuer:
    """Raises as `Signing.authority_key`."""
    return Issuer(x509.load_der_x509_certificate(authority.certificate_der), signing.authority_key(authority))


def _token(module: Path, label: str, pin_file: Path) -> Pkcs11Token:
    try:
        mode = stat.S_IMODE(pin_file.stat().st_mode)
        lines = pin_file.read_text().splitlines()
    except (OSError, UnicodeDecodeError) as exc:
        raise KeyStoreRefused(
            "The file of the token's PIN cannot be read.", place=str(pin_file), remedy="ADMIT_PKCS11_PIN_FILE names it."
        ) from exc
    if mode & stat.S_IRWXO:
        raise KeyStoreRefused(
            f"Anybody may reach the token's PIN (mode {mode:04o}).", place=str(pin_file), remedy=f"chmod 600 {pin_file}"
        )
    if not lines or not lines[0]:
        raise KeyStoreRefused("The first line must be the token's PIN.", place=str(pin_file))
    return _token_with(module, label, lines[0])


@lru_cache
def _token_with(module: Path, label: str, pin: str) -> Pkcs11Token:
    """One for the process: a token counts sessions, and wrong PINs."""
    return Pkcs11Token(module, label, pin)


def _key_id(address: bytes) -> bytes:
    parts = dict(part.split("=", 1) for part in address.removeprefix(_URI).decode("ascii").split(";"))
    return unquote_to_bytes(parts["id"])


def _context(authority_id: UUID) -> str:
    return f"authority:{authority_id}"
