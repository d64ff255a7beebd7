"""Access to the private keys of authorities, for signing.

A private key is either in the authority's database row, encrypted with the master key, or in a PKCS#11 token. For a key
in a token, the row contains the encrypted URI of the key (RFC 7512).
"""

import stat
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple, Self
from urllib.parse import quote_from_bytes, unquote_to_bytes
from uuid import UUID

from cryptography import x509

from nac.certificates.errors import AuthorityKeyAway, KeyStoreRefused, translate_pki_errors
from nac.certificates.profiles import KeyStoreChoice, KeyStoreName
from nac.kit.advice import Advice
from nac.kit.secrets import MasterKeyFile, Sealer
from nac.kit.settings import Settings
from nac.models import CertificateAuthority
from pki.issuance import Issuer
from pki.keys import KeyKind, PrivateKey, generate_key, key_pem, load_key
from pki.pkcs11_tokens import Pkcs11Token

_URI_PREFIX = b"pkcs11:"


class AuthorityKey(NamedTuple):
    key: PrivateKey
    store: KeyStoreName
    # Value for the authority's row: the encrypted key, or the encrypted URI of the key in a token.
    sealed: bytes


@dataclass(frozen=True, slots=True)
class SigningContext:
    # Encrypts and decrypts private keys of authorities.
    sealer: Sealer
    # Base of the public URLs of revocation lists, OCSP responders and authorities, which each certificate contains.
    public_url: str
    # Where Admit stores keys of new authorities, unless the tenant has its own setting. Admit can use existing keys in
    # both stores.
    key_store: KeyStoreName = "sealed"
    token: Pkcs11Token | None = None

    @classmethod
    def from_settings(cls, settings: Settings) -> Self:
        """Create the context from the settings. Raises KeyFileRefused, or KeyStoreRefused for an invalid PIN file."""
        token = None
        if settings.pkcs11_module is not None and settings.pkcs11_pin_file is not None:
            token = _open_token(settings.pkcs11_module, settings.pkcs11_token, settings.pkcs11_pin_file)
        sealer = Sealer(MasterKeyFile(settings.master_key_file))
        return cls(sealer, settings.public_url, settings.authority_key_store, token)

    def new_authority_key(self, kind: KeyKind, *, authority_id: UUID, store: KeyStoreChoice = "") -> AuthorityKey:
        """Create a key for a new authority with this id. If `store` is "", uses the platform's default key store."""
        chosen = store or self.key_store
        if chosen == "sealed":
            key = generate_key(kind)
            return AuthorityKey(key, chosen, self.seal_authority_key(key, authority_id=authority_id))
        with translate_pki_errors():
            key = self._require_token().generate(kind, key_id=authority_id.bytes, label=f"admit {authority_id}")
        address = _URI_PREFIX + f"id={quote_from_bytes(authority_id.bytes, safe='')};type=private".encode()
        return AuthorityKey(key, chosen, self.sealer.seal(address, _seal_context(authority_id)))

    def seal_authority_key(self, key: PrivateKey, *, authority_id: UUID) -> bytes:
        """Encrypt a private key for the authority's row."""
        return self.sealer.seal(key_pem(key), _seal_context(authority_id))

    def authority_key(self, authority: CertificateAuthority) -> PrivateKey:
        """Return the authority's private key: decrypted from the row, or as an object that signs in the PKCS#11 token.

        Raises AuthorityKeyAway if Admit does not store the key, KeyStoreRefused or KeyStoreUnavailable.
        """
        if authority.key_sealed is None:
            raise AuthorityKeyAway(
                f"Admit does not store the key of {authority.name}.",
                place="authority",
                remedy=Advice("Import the key of the authority.", "importRootKey"),
            )
        opened = self.sealer.open(authority.key_sealed, _seal_context(authority.id))
        with translate_pki_errors():
            return self._require_token().key(_key_id(opened)) if opened.startswith(_URI_PREFIX) else load_key(opened)

    def _require_token(self) -> Pkcs11Token:
        if self.token is None:
            raise KeyStoreRefused(
                "The key of an authority is in a PKCS#11 token, but no token is configured.",
                place="key store",
                remedy="Set ADMIT_PKCS11_MODULE, ADMIT_PKCS11_TOKEN and ADMIT_PKCS11_PIN_FILE.",
            )
        return self.token


def build_issuer(authority: CertificateAuthority, signing: SigningContext) -> Issuer:
    """Return the authority with the decrypted private key. Raises the errors of `SigningContext.authority_key`."""
    return Issuer(x509.load_der_x509_certificate(authority.certificate_der), signing.authority_key(authority))


def _open_token(module: Path, label: str, pin_file: Path) -> Pkcs11Token:
    try:
        mode = stat.S_IMODE(pin_file.stat().st_mode)
        lines = pin_file.read_text().splitlines()
    except (OSError, UnicodeDecodeError) as exc:
        raise KeyStoreRefused(
            "Cannot read the PIN file of the token.", place=str(pin_file), remedy="Check ADMIT_PKCS11_PIN_FILE."
        ) from exc
    if mode & stat.S_IRWXO:
        raise KeyStoreRefused(
            f"All users can read the PIN file (mode {mode:04o}).", place=str(pin_file), remedy=f"chmod 600 {pin_file}"
        )
    if not lines or not lines[0]:
        raise KeyStoreRefused("The first line must be the PIN of the token.", place=str(pin_file))
    return _cached_token(module, label, lines[0])


@lru_cache
def _cached_token(module: Path, label: str, pin: str) -> Pkcs11Token:
    """Return the token object. A process has only one, because a token limits sessions and attempts with wrong PINs."""
    return Pkcs11Token(module, label, pin)


def _key_id(address: bytes) -> bytes:
    parts = dict(part.split("=", 1) for part in address.removeprefix(_URI_PREFIX).decode("ascii").split(";"))
    return unquote_to_bytes(parts["id"])


def _seal_context(authority_id: UUID) -> str:
    return f"authority:{authority_id}"
