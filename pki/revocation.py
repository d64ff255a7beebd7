"""Revocation of a certificate, for CRLs and OCSP responses (RFC 5280 5.3.1)."""

from datetime import datetime
from typing import NamedTuple

# CRLReason without number 8, which only delta CRLs use.
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
