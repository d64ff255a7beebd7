"""Certificates of external authorities that devices presented, and the URLs where their status is published."""

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import NamedTuple

import psycopg
from cryptography import x509
from cryptography.x509.oid import AuthorityInformationAccessOID, NameOID

from nac.cellformat.journal.records import AuthRecord
from nac.kit.errors import InvalidInput
from nac.kit.text_format import escape_controls
from nac.kit.validation import require_web_address
from pki.errors import UNREADABLE_ERRORS
from pki.serials import serial_bytes

# Limit of certificates per tenant. At the limit, the worker removes old certificates
# (nac/certificates/external_status.py).
MAX_CERTIFICATES = 10_000
_MAX_URLS = 4
_MAX_NAME_CHARACTERS = 200

# Ignores certificates whose authority was removed meanwhile.
MERGE = """
INSERT INTO external_certificates AS known (
    tenant_id, authority_id, serial, common_name, crl_urls, ocsp_urls, not_after, first_seen_at, last_seen_at
)
SELECT a.tenant_id, a.id, %(serial)s, %(common_name)s, %(crl_urls)s, %(ocsp_urls)s, %(not_after)s,
    to_timestamp(%(at)s::float8 / 1e6), to_timestamp(%(at)s::float8 / 1e6)
FROM certificate_authorities a
WHERE a.id = %(authority_id)s AND a.tenant_id = %(tenant_id)s AND a.kind = 'external' AND (
    EXISTS (SELECT FROM external_certificates e WHERE e.authority_id = a.id AND e.serial = %(serial)s)
    OR (SELECT count(*) FROM external_certificates e WHERE e.tenant_id = a.tenant_id) < %(most)s
)
ON CONFLICT (authority_id, serial) DO UPDATE SET last_seen_at = greatest(known.last_seen_at, excluded.last_seen_at)
"""


class SeenCertificate(NamedTuple):
    tenant_id: str
    authority_id: str
    # Epoch microseconds.
    at: int
    serial: bytes
    common_name: str
    crl_urls: list[str]
    ocsp_urls: list[str]
    not_after: datetime


class ExternalCertificates:
    """External certificates of one journal batch.

    Writes each certificate once. Writes in the order of keys, because several cells write this table.
    """

    def __init__(self) -> None:
        self._shown: dict[tuple[str, bytes], SeenCertificate] = {}

    def add(self, record: AuthRecord) -> None:
        if not record.external_certificate:
            return
        try:
            certificate = _read_certificate(record)
        except UNREADABLE_ERRORS:
            # Admit has verified the signature, but cannot read the fields, so the status cannot be checked.
            return
        self._shown[certificate.authority_id, certificate.serial] = certificate

    def write(self, cursor: psycopg.Cursor) -> None:
        if self._shown:
            rows = [self._shown[key]._asdict() | {"most": MAX_CERTIFICATES} for key in sorted(self._shown)]
            cursor.executemany(MERGE, rows)


def _read_certificate(record: AuthRecord) -> SeenCertificate:
    """Parse the certificate. Raises one of the errors in UNREADABLE if the certificate cannot be parsed."""
    certificate = x509.load_der_x509_certificate(record.external_certificate)
    names = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return SeenCertificate(
        record.tenant_id,
        record.external_authority,
        record.at,
        serial_bytes(certificate.serial_number),
        escape_controls(str(names[0].value))[:_MAX_NAME_CHARACTERS] if names else "",
        list(_usable_urls(_crl_urls(certificate))),
        list(_usable_urls(_ocsp_urls(certificate))),
        certificate.not_valid_after_utc,
    )


def _crl_urls(certificate: x509.Certificate) -> list[str]:
    """CRL URLs (RFC 5280 4.2.1.13).

    Skips CRLs that another authority signs, and CRLs for only some revocation reasons.
    """
    try:
        points = certificate.extensions.get_extension_for_class(x509.CRLDistributionPoints).value
    except x509.ExtensionNotFound:
        return []
    whole = [point for point in points if not point.crl_issuer and not point.reasons]
    return [name.value for point in whole for name in point.full_name or () if isinstance(name.value, str)]


def _ocsp_urls(certificate: x509.Certificate) -> list[str]:
    """OCSP URLs (RFC 5280 4.2.2.1)."""
    try:
        descriptions = certificate.extensions.get_extension_for_class(x509.AuthorityInformationAccess).value
    except x509.ExtensionNotFound:
        return []
    return [
        each.access_location.value
        for each in descriptions
        if each.access_method == AuthorityInformationAccessOID.OCSP and isinstance(each.access_location.value, str)
    ]


def _usable_urls(urls: Iterable[str]) -> Iterator[str]:
    """Select URLs with http or https, because some certificates also name a directory (ldap:)."""
    left = _MAX_URLS
    for url in dict.fromkeys(urls):
        try:
            require_web_address(url, place="url")
        except InvalidInput:
            continue
        if left:
            left -= 1
            yield url
