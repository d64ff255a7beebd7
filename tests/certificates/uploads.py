"""External authorities of all kinds, in the form in which customers upload them."""

from datetime import datetime, timedelta
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from pki.issuance import Issuer
from pki.keys import PrivateKey, generate_key
from pki.serials import random_serial

DAY = timedelta(days=1)


def name_of(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def authority(
    common_name: str,
    now: datetime,
    *,
    by: Issuer | None = None,
    key: Any = None,
    ca: bool | None = True,
    sign: bool = True,
    digest: Any = None,
    not_before: datetime | None = None,
    not_after: datetime | None = None,
    extensions: tuple[tuple[x509.ExtensionType, bool], ...] = (),
) -> Issuer:
    """Create an authority. `ca=None` omits basicConstraints."""
    own: PrivateKey = key or generate_key()
    builder = (
        x509.CertificateBuilder()
        .subject_name(name_of(common_name))
        .issuer_name(by.certificate.subject if by else name_of(common_name))
        .public_key(own.public_key())
        .serial_number(random_serial())
        .not_valid_before(not_before or now - DAY)
        .not_valid_after(not_after or now + 365 * DAY)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(own.public_key()), critical=False)
    )
    if ca is not None:
        builder = builder.add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
    builder = builder.add_extension(_usage(sign), critical=True)
    if by is not None:
        aki = x509.AuthorityKeyIdentifier.from_issuer_public_key(by.key.public_key())
        builder = builder.add_extension(aki, critical=False)
    for extension, critical in extensions:
        builder = builder.add_extension(extension, critical)
    return Issuer(builder.sign(by.key if by else own, digest or hashes.SHA256()), own)


def _usage(sign: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=sign,
        crl_sign=True,
        encipher_only=False,
        decipher_only=False,
    )


def pem(*issuers: Issuer) -> bytes:
    return b"".join(each.certificate.public_bytes(Encoding.PEM) for each in issuers)


def weak_key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=1024)  # noqa: S505 -- that is the point
