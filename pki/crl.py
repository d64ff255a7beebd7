"""Certificate revocation lists (RFC 5280 5), and `Revocation` for CRLs and OCSP responses (RFC 5280 5.3.1).

Each CRL of Admit covers all certificates of one authority, for all reasons. So a CRL has no IssuingDistributionPoint
(5.2.5), because this extension marks partial CRLs.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import NamedTuple

from cryptography import x509
from cryptography.exceptions import InvalidSignature

from pki import der
from pki.errors import IssuerNotAllowed
from pki.issuance import Issuer, key_identifier
from pki.keys import require_acceptable
from pki.signatures import encode_signed, signature_algorithm

# Numbers of the CRLReason values, without 8 (removeFromCRL), which only delta CRLs use.
REVOCATION_REASONS = {
    "unspecified": 0,
    "keyCompromise": 1,
    "cACompromise": 2,
    "affiliationChanged": 3,
    "superseded": 4,
    "cessationOfOperation": 5,
    "certificateHold": 6,
    "privilegeWithdrawn": 9,
    "aACompromise": 10,
}


class Revocation(NamedTuple):
    at: datetime
    # A name in REVOCATION_REASONS.
    reason: str


_AUTHORITY_KEY_IDENTIFIER = "2.5.29.35"
_NUMBER = "2.5.29.20"
_REASON = "2.5.29.21"
_VERSION_2 = der.integer(1)
# Maximum of RFC 5280 5.2.3.
MAX_CRL_NUMBER = (1 << 159) - 1


def build_crl(
    issuer: Issuer,
    revoked: Iterable[tuple[bytes, Revocation]],
    *,
    number: int,
    this_update: datetime,
    next_update: datetime,
) -> bytes:
    """Build a CRL as DER. `revoked` contains pairs of serial number (big-endian) and revocation.

    Times in the CRL are in whole seconds. Raises IssuerNotAllowed if the authority may not sign CRLs.
    """
    _check_issuer(issuer.certificate)
    if not 0 <= number <= MAX_CRL_NUMBER:
        raise ValueError("a CRL number must not be negative or exceed 20 octets (RFC 5280 5.2.3)")
    entries = b"".join(_encode_entry(serial, revocation) for serial, revocation in revoked)
    identifier = der.sequence(der.encode(0x80, key_identifier(issuer.certificate)))
    extensions = der.sequence(
        der.extension(_AUTHORITY_KEY_IDENTIFIER, identifier), der.extension(_NUMBER, der.integer(number))
    )
    content = der.sequence(
        _VERSION_2,
        signature_algorithm(issuer.key),
        issuer.certificate.subject.public_bytes(),
        der.time(this_update),
        der.time(next_update),
        # RFC 5280 5.1.2.6: without entries, this field must be absent.
        der.encode(der.SEQUENCE, entries) if entries else b"",
        der.explicit(0, extensions),
    )
    crl = encode_signed(issuer.key, content)
    _check_signature(crl, issuer.certificate)
    return crl


_REASON_EXTENSIONS = {
    # RFC 5280 5.3.1: a missing reason means "unspecified".
    name: der.sequence(der.extension(_REASON, der.encode(der.ENUMERATED, bytes((code,))))) if code else b""
    for name, code in REVOCATION_REASONS.items()
}


def _encode_entry(serial: bytes, revocation: Revocation) -> bytes:
    padding = b"\0" if serial[0] & 0x80 else b""
    number = der.encode(der.INTEGER, padding + serial)
    return der.sequence(number, der.time(revocation.at), _REASON_EXTENSIONS[revocation.reason])


def _check_issuer(authority: x509.Certificate) -> None:
    usage = authority.extensions.get_extension_for_class(x509.KeyUsage).value
    if not usage.crl_sign:
        raise IssuerNotAllowed(f"{authority.subject.rfc4514_string()} may not sign CRLs (RFC 5280 4.2.1.3).")


def _check_signature(crl: bytes, issuer: x509.Certificate) -> None:
    """Verify the new signature. Clients would reject a faulty signature, and it could reveal the private key."""
    try:
        loaded = x509.load_der_x509_crl(crl)
        good = loaded.is_signature_valid(require_acceptable(issuer.public_key()))
    except (ValueError, TypeError, InvalidSignature) as exc:
        raise IssuerNotAllowed("The new CRL is not readable, so Admit discarded the CRL.") from exc
    if not good:
        raise IssuerNotAllowed("The signature of the new CRL is invalid, so Admit discarded the CRL.")
