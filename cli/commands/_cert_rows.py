"""Rows for certificates."""

from cryptography import x509

from nac.models import Certificate
from pki.issuance import read_locations


def certificate_row(certificate: Certificate) -> dict[str, object]:
    return {
        "serial": certificate.serial.hex(),
        "profile": certificate.profile,
        "name": certificate.common_name,
        "status": certificate.status,
        "not_before": certificate.not_before.isoformat(),
        "not_after": certificate.not_after.isoformat(),
    }


def _locations(certificate: x509.Certificate) -> dict[str, object]:
    """Status URLs in the certificate."""
    locations = read_locations(certificate)
    if locations is None:
        return {}
    return {"ocsp_url": locations.ocsp, "crl_url": locations.crl, "issuer_url": locations.certificate}
