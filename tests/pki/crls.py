"""Certificate revocation lists as external authorities publish them."""

from datetime import datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding

from nac.kit.clock import utc_now
from pki.issuance import Issuer

SERIAL = b"\x0a\x01"


def make_crl(
    *extensions: tuple[x509.ExtensionType, bool],
    by: Issuer,
    begin: datetime | None = None,
    end: datetime | None = None,
    serials: tuple[bytes, ...] = (SERIAL,),
    entry: x509.ExtensionType | None = None,
    encoding: Encoding = Encoding.DER,
) -> bytes:
    """A CRL. By default it was issued an hour ago and is valid for another day."""
    begin = begin or utc_now() - timedelta(hours=1)
    builder = x509.CertificateRevocationListBuilder().issuer_name(by.certificate.subject).last_update(begin)
    builder = builder.next_update(end or utc_now() + timedelta(days=1))
    for serial in serials:
        revoked = x509.RevokedCertificateBuilder().serial_number(int.from_bytes(serial)).revocation_date(begin)
        if entry is not None:
            revoked = revoked.add_extension(entry, critical=True)
        builder = builder.add_revoked_certificate(revoked.build())
    for value, critical in extensions or ((x509.CRLNumber(7), False),):
        builder = builder.add_extension(value, critical)
    return builder.sign(by.key, hashes.SHA256()).public_bytes(encoding)
