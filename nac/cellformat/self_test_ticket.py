"""Tickets that prove to a cell that a request belongs to a self-test. A ticket describes the simulated device.

Admit sends a ticket in attributes that a NAS usually sets: NAS-Identifier marks the request, NAS-Port-Id contains the
ticket, and Connect-Info contains the endpoint group. A ticket is valid for one minute, and only for one of the reserved
MAC addresses. Only Admit has the key that signs a ticket. Therefore no device or NAS can create a ticket.
"""

import hmac
import re
from base64 import urlsafe_b64encode
from hashlib import sha256
from typing import NamedTuple

NAS_IDENTIFIER = "admit-self-test"
# Certificate profile that is valid only in self-tests, where it counts as `PLAYED_PROFILE`.
SELF_TEST_PROFILE = "eap-client-self-test"
PLAYED_PROFILE = "eap-client-device"
# The last 16 documentation addresses (RFC 7042 2.1.2). No real device has such an address.
MAC_PREFIX = "00005e0053f"
LIFETIME_SECONDS = 60
# NAS-Port-Id: id of the self-test and number of the check, end of validity, "k" for a known or "u" for an unknown
# device, signature.
_TEXT = re.compile(r"([0-9a-f]{8}-[0-9]{1,2})\.([0-9]{1,12})\.([ku])\.([\w-]{22})", re.ASCII)
MAX_GROUP_OCTETS = 240


class Ticket(NamedTuple):
    mac: str
    # Identifier of the check in logs.
    mark: str
    # End of validity in epoch seconds.
    until: int
    known: bool
    # Group of the endpoint; "" for none.
    group: str = ""


def encode_ticket(ticket: Ticket, tenant_key: bytes) -> str:
    """Return the NAS-Port-Id of the ticket.

    `tenant_key` is the `cui_key` of the tenant's slot record in the replica.
    """
    return f"{_signed_text(ticket)}.{_sign_ticket(ticket, tenant_key)}"


def read_ticket(*, mac: str, port: str, group: str, tenant_key: bytes, now_seconds: int) -> Ticket | None:
    """Return the ticket; None if the ticket is invalid, expired, or for another tenant or device."""
    found = _TEXT.fullmatch(port)
    if found is None or not tenant_key or not mac.startswith(MAC_PREFIX):
        return None
    mark, until, kind, signature = found.groups()
    ticket = Ticket(mac, mark, int(until), kind == "k", group)
    if not now_seconds <= ticket.until <= now_seconds + 2 * LIFETIME_SECONDS:
        return None
    if not hmac.compare_digest(signature, _sign_ticket(ticket, tenant_key)):
        return None
    return ticket


def _signed_text(ticket: Ticket) -> str:
    return f"{ticket.mark}.{ticket.until}.{'k' if ticket.known else 'u'}"


def _sign_ticket(ticket: Ticket, tenant_key: bytes) -> str:
    # Use a derived key, so that no other signature with the tenant's key is valid for a ticket.
    key = hmac.digest(tenant_key, b"admit self-test", sha256)
    signed = hmac.digest(key, f"{ticket.mac}\0{_signed_text(ticket)}\0{ticket.group}".encode(), sha256)
    return urlsafe_b64encode(signed[:16]).rstrip(b"=").decode()
