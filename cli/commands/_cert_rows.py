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
    told = read_locations(certificate)
    if told is None:
        return {}
    return {"ocsp_url": told.ocsp, "crl_url": told.crl, "issuer_url": told.certificate}
