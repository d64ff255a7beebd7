"""Rows for certificates."""

from cryptography import x509
from sqlalchemy.orm import Session

from cli.output import Row
from nac.certificates import service as certificates
from nac.certificates.holders import describe_holder
from nac.models import Certificate
from pki.issuance import read_locations
from pki.names import read_sans


def certificate_row(certificate: Certificate) -> dict[str, object]:
    return {
        "serial": certificate.serial.hex(),
        "profile": certificate.profile,
        "name": certificate.common_name,
        "status": certificate.status,
        "not_before": certificate.not_before.isoformat(),
        "not_after": certificate.not_after.isoformat(),
    }


def full_row(session: Session, certificate: Certificate) -> Row:
    row = certificate_row(certificate) | {
        **describe_holder(session, certificate),
        "subject": certificate.subject,
        "revoked_at": certificate.revoked_at and certificate.revoked_at.isoformat(),
        "revocation_reason": certificate.revocation_reason,
        "renewed_by": [each.serial.hex() for each in certificates.list_renewals(session, certificate)],
        "present_from": certificate.present_from and certificate.present_from.isoformat(),
        "authority": str(certificate.authority_id),
    }
    if certificate.certificate_der is not None:
        loaded = x509.load_der_x509_certificate(certificate.certificate_der)
        row["names"] = [str(item) for item in read_sans(loaded)]
        row |= _locations(loaded)
    return row


def _locations(certificate: x509.Certificate) -> dict[str, object]:
    """Status URLs in the certificate."""
    locations = read_locations(certificate)
    if locations is None:
        return {}
    return {"ocsp_url": locations.ocsp, "crl_url": locations.crl, "issuer_url": locations.certificate}
