"""Authorities that imitate another authority: equal names and key identifiers, but another key."""

from dataclasses import dataclass, replace
from datetime import timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes

from pki.bundles import certificates_pem
from pki.issuance import Issuer
from pki.keys import PrivateKey, generate_key
from tests.radius.tenants import Authorities, ClientFiles

_HOUR = timedelta(hours=1)


@dataclass(frozen=True)
class Imitation:
    """An authority with the names of another authority, signed by `signed_by`."""

    issuer: Issuer
    authorities: Authorities

    def client(self, file_name: str, *chain: x509.Certificate, of: ClientFiles) -> ClientFiles:
        """Issue a copy of the certificate `of` with another key and the same serial number. It is sent with `chain`."""
        key = generate_key()
        copied = _copy(of.certificate, key, self.issuer.certificate.subject, self.issuer.key)
        pem = certificates_pem([copied, self.issuer.certificate, *chain])
        return replace(self.authorities.write_client(file_name, copied, key, chain=pem), name=of.name)


def imitate(imitated: x509.Certificate, authorities: Authorities, *, signed_by: Issuer | None = None) -> Imitation:
    """Create an imitation. With `signed_by` None it signs itself."""
    key = generate_key()
    signer = signed_by or Issuer(_copy(imitated, key, imitated.subject, key), key)
    certificate = _copy(imitated, key, signer.certificate.subject, signer.key)
    return Imitation(Issuer(certificate, key), authorities)


def _copy(original: x509.Certificate, key: PrivateKey, issuer: x509.Name, signing_key: PrivateKey) -> x509.Certificate:
    """Copy a certificate with every extension, including the subject key identifier.

    Only the authority key identifier differs: it is the identifier of the signing authority, unless that is an
    imitation too.
    """
    builder = (
        x509.CertificateBuilder()
        .subject_name(original.subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(original.serial_number)
        .not_valid_before(original.not_valid_before_utc - _HOUR)
        .not_valid_after(original.not_valid_after_utc)
    )
    for extension in original.extensions:
        value = extension.value
        if isinstance(value, x509.AuthorityKeyIdentifier) and issuer != original.issuer:
            value = x509.AuthorityKeyIdentifier.from_issuer_public_key(signing_key.public_key())
        builder = builder.add_extension(value, extension.critical)
    return builder.sign(signing_key, hashes.SHA256())
