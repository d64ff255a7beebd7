"""Client certificates of external authorities that the cell trusts, with any subject and extensions."""

from collections.abc import Iterable
from datetime import datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID, ObjectIdentifier

from pki import der
from pki.keys import generate_key
from pki.serials import random_serial
from tests.radius.tenants import Authorities, ClientFiles

UPN = ObjectIdentifier("1.3.6.1.4.1.311.20.2.3")
TEMPLATE_NAME = ObjectIdentifier("1.3.6.1.4.1.311.20.2")
DAY = timedelta(days=1)


def subject(**parts: str | list[str]) -> x509.Name:
    """`subject(CN="pc1", OU=["a", "b"])`."""
    kinds = {
        "CN": NameOID.COMMON_NAME,
        "O": NameOID.ORGANIZATION_NAME,
        "OU": NameOID.ORGANIZATIONAL_UNIT_NAME,
        "C": NameOID.COUNTRY_NAME,
        "ST": NameOID.STATE_OR_PROVINCE_NAME,
        "L": NameOID.LOCALITY_NAME,
        "DC": NameOID.DOMAIN_COMPONENT,
        "UID": NameOID.USER_ID,
        "GN": NameOID.GIVEN_NAME,
        "SN": NameOID.SURNAME,
        "title": NameOID.TITLE,
        "emailAddress": NameOID.EMAIL_ADDRESS,
        "serialNumber": NameOID.SERIAL_NUMBER,
    }
    values = {part: found if isinstance(found, list) else [found] for part, found in parts.items()}
    return x509.Name([x509.NameAttribute(kinds[part], value) for part, found in values.items() for value in found])


def upn(name: str) -> x509.OtherName:
    return x509.OtherName(UPN, der.encode(der.UTF8_STRING, name.encode()))


def template_name(name: str) -> x509.UnrecognizedExtension:
    """The certificate template name as a BMPString ([MS-WCCE] 2.2.2.7.7.1)."""
    return x509.UnrecognizedExtension(TEMPLATE_NAME, der.encode(der.BMP_STRING, name.encode("utf-16-be")))


def issued_client(
    authorities: Authorities,
    file_name: str,
    name: x509.Name,
    *extensions: x509.ExtensionType,
    names: Iterable[x509.GeneralName] = (),
    not_before: datetime | None = None,
    not_after: datetime | None = None,
) -> ClientFiles:
    key = generate_key()
    builder = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(authorities.issuing.certificate.subject)
        .public_key(key.public_key())
        .serial_number(random_serial())
        .not_valid_before(not_before or authorities.now - DAY)
        .not_valid_after(not_after or authorities.now + 30 * DAY)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
    )
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(list(names)), critical=False)
    for extension in extensions:
        builder = builder.add_extension(extension, critical=False)
    return authorities.write_client(file_name, builder.sign(authorities.issuing.key, hashes.SHA256()), key)
