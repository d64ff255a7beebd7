"""Standard Webhooks 1.0: how a receiver knows that a request is ours, and is not an old one sent again.

Signed is "<webhook-id>.<webhook-timestamp>.<body>" by HMAC-SHA-256; while a secret is exchanged, by both.
"""

import base64
import hashlib
import hmac
import secrets
from collections.abc import Iterable

_PREFIX = "whsec_"
# From 24 to 64 octets.
_SECRET_BYTES = 32


def new_secret() -> str:
    """As receivers are given it."""
    return _PREFIX + base64.b64encode(secrets.token_bytes(_SECRET_BYTES)).decode()


def signed_headers(secrets_: Iterable[str], *, message_id: str, at: int, body: bytes) -> dict[str, str]:
    """`at` in epoch seconds; the first of the secrets signs first."""
    signed = f"{message_id}.{at}.".encode() + body
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(at),
        "webhook-signature": " ".join(f"v1,{_mac(secret, signed)}" for secret in secrets_),
    }


def _mac(secret: str, signed: bytes) -> str:
    key = base64.b64decode(secret.removeprefix(_PREFIX))
    return base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
