"""Signatures of Standard Webhooks 1.0, with which receivers verify origin and freshness.

HMAC-SHA-256 over "<webhook-id>.<webhook-timestamp>.<body>"; during a secret rotation with both secrets.
"""

import base64
import hashlib
import hmac
import secrets
from collections.abc import Iterable

_PREFIX = "whsec_"
# 24 to 64 octets are permitted.
_SECRET_BYTES = 32


def generate_secret() -> str:
    """Create a secret in the receivers' format."""
    return _PREFIX + base64.b64encode(secrets.token_bytes(_SECRET_BYTES)).decode()


def build_signature_headers(secrets_: Iterable[str], *, message_id: str, at: int, body: bytes) -> dict[str, str]:
    """Return the headers; `at` in epoch seconds, first secret first."""
    signed = f"{message_id}.{at}.".encode() + body
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(at),
        "webhook-signature": " ".join(f"v1,{_compute_mac(secret, signed)}" for secret in secrets_),
    }


def _compute_mac(secret: str, signed: bytes) -> str:
    key = base64.b64decode(secret.removeprefix(_PREFIX))
    return base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
