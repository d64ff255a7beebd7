"""What proves to a cell that a request is of a self-test, and says which device it plays.

The ticket goes along in attributes that no device can set: NAS-Identifier says that there is one, NAS-Port-Id holds it,
Connect-Info the group of the device. It is signed with a key that only Admit has, bound to one of the reserved MAC
addresses, and good for a minute, so neither a device nor a NAS of the tenant can make one.
"""

import hmac
import re
from base64 import urlsafe_b64encode
from hashlib import sha256
from typing import NamedTuple

NAS_IDENTIFIER = "admit-self-test"
# Of certificates that are good in self-tests alone, where they count as those of `PLAYED_PROFILE`.
SELF_TEST_PROFILE = "eap-client-self-test"
PLAYED_PROFILE = "eap-client-device"
# The last 16 addresses of those for documentation (RFC 7042 2.1.2): no device has one.
MAC_PREFIX = "00005e0053f"
LIFETIME_SECONDS = 60
# NAS-Port-Id: run and number of the check, the ticket's end, "k" of a known device, else "u", and the signature.
_TEXT = re.compile(r"([0-9a-f]{8}-[0-9]{1,2})\.([0-9]{1,12})\.([ku])\.([\w-]{22})", re.ASCII)
MAX_GROUP_OCTETS = 240


class Ticket(NamedTuple):
    mac: str
    # Names the check in logs.
    mark: str
    # Epoch seconds.
    until: int
    known: bool
    # "" for none.
    group: str = ""


def encode_ticket(ticket: Ticket, tenant_key: bytes) -> str:
    """The NAS-Port-Id of the ticket, signed with what the replica has of the tenant."""
    return f"{_signed_text(ticket)}.{_sign_ticket(ticket, tenant_key)}"


def read_ticket(*, mac: str, port: str, group: str, tenant_key: bytes, now_seconds: int) -> Ticket | None:
    """None where it is none, or one of another tenant, device or time."""
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
    # A key of its own: what the tenant's key signs elsewhere is no ticket.
    key = hmac.digest(tenant_key, b"admit self-test", sha256)
    signed = hmac.digest(key, f"{ticket.mac}\0{_signed_text(ticket)}\0{ticket.group}".encode(), sha256)
    return urlsafe_b64encode(signed[:16]).rstrip(b"=").decode()
