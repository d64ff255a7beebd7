"""RADIUS on the wire, as far as a load generator needs it: quick to build, strict to verify.

RFC 2865 (packets, User-Password), RFC 2866 3 (accounting), RFC 3579 3.2 (Message-Authenticator), RFC 2868 and 3580 3.31
(VLAN). The product's own code is not used here on purpose: what measures must not share the mistakes of the measured.
"""

# RADIUS signatures require MD5.
# ruff: noqa: S324

import struct
from collections.abc import Iterator
from hashlib import md5

ACCESS_REQUEST, ACCESS_ACCEPT, ACCESS_REJECT, ACCESS_CHALLENGE = 1, 2, 3, 11
ACCOUNTING_REQUEST, ACCOUNTING_RESPONSE = 4, 5
STATUS_SERVER = 12

USER_NAME, USER_PASSWORD, NAS_IP_ADDRESS, NAS_PORT, SERVICE_TYPE = 1, 2, 4, 5, 6
FRAMED_IP_ADDRESS, FRAMED_MTU, REPLY_MESSAGE, STATE, CLASS = 8, 12, 18, 24, 25
CALLED_STATION_ID, CALLING_STATION_ID, NAS_IDENTIFIER = 30, 31, 32
ACCT_STATUS_TYPE, ACCT_DELAY_TIME, ACCT_INPUT_OCTETS, ACCT_OUTPUT_OCTETS, ACCT_SESSION_ID = 40, 41, 42, 43, 44
ACCT_AUTHENTIC, ACCT_SESSION_TIME, ACCT_INPUT_PACKETS, ACCT_OUTPUT_PACKETS, ACCT_TERMINATE_CAUSE = 45, 46, 47, 48, 49
ACCT_INPUT_GIGAWORDS, ACCT_OUTPUT_GIGAWORDS, EVENT_TIMESTAMP, NAS_PORT_TYPE = 52, 53, 55, 61
CONNECT_INFO, EAP_MESSAGE, MESSAGE_AUTHENTICATOR, TUNNEL_PRIVATE_GROUP_ID, NAS_PORT_ID = 77, 79, 80, 81, 87

CODE_NAMES = {
    ACCESS_ACCEPT: "accept",
    ACCESS_REJECT: "reject",
    ACCESS_CHALLENGE: "challenge",
    ACCOUNTING_RESPONSE: "acknowledged",
}

_ZERO16 = bytes(16)
_HEAD = struct.Struct("!BBH")
_UNSIGNED_AUTHENTICATOR = b"\x50\x12" + _ZERO16


class Secret:
    """A shared secret with the two HMAC blocks of RFC 2104 2 made ready; halves the cost of hmac.digest here."""

    __slots__ = ("inner", "outer", "value")

    def __init__(self, value: bytes) -> None:
        block = (value if len(value) <= 64 else md5(value).digest()).ljust(64, b"\0")
        self.value = value
        self.inner = bytes(octet ^ 0x36 for octet in block)
        self.outer = bytes(octet ^ 0x5C for octet in block)

    def sign(self, message: bytes) -> bytes:
        return md5(self.outer + md5(self.inner + message).digest()).digest()


def attribute(number: int, value: bytes | str | int) -> bytes:
    """One attribute; integers become 4 octets. ValueError where it does not fit into one (253 octets)."""
    if isinstance(value, int):
        value = value.to_bytes(4, "big")
    elif isinstance(value, str):
        value = value.encode()
    if len(value) > 253:
        raise ValueError(f"attribute {number} holds {len(value)} octets, 253 fit")
    return bytes((number, len(value) + 2)) + value


def eap_message(eap: bytes) -> bytes:
    """An EAP packet in as many EAP-Message attributes as it needs (RFC 3579 3.1)."""
    return b"".join(attribute(EAP_MESSAGE, eap[at : at + 253]) for at in range(0, len(eap), 253))


def hide_password(password: bytes, authenticator: bytes, secret: Secret) -> bytes:
    """The User-Password attribute (RFC 2865 5.2)."""
    padded = password.ljust(-(-max(len(password), 1) // 16) * 16, b"\0")
    hidden, last = b"", authenticator
    for at in range(0, len(padded), 16):
        mask = int.from_bytes(md5(secret.value + last).digest(), "big")
        last = (int.from_bytes(padded[at : at + 16], "big") ^ mask).to_bytes(16, "big")
        hidden += last
    return attribute(USER_PASSWORD, hidden)


def access_request(
    identifier: int,
    authenticator: bytes,
    attributes: bytes,
    secret: Secret,
    password: bytes | None = None,
    *,
    code: int = ACCESS_REQUEST,
) -> bytes:
    """An Access-Request (or Status-Server, by `code`) with Message-Authenticator first."""
    if password is not None:
        attributes = hide_password(password, authenticator, secret) + attributes
    head = _HEAD.pack(code, identifier, 38 + len(attributes)) + authenticator
    signature = secret.sign(head + _UNSIGNED_AUTHENTICATOR + attributes)
    return head + b"\x50\x12" + signature + attributes


def accounting_request(identifier: int, attributes: bytes, secret: Secret) -> bytes:
    """An Accounting-Request; its Request Authenticator is the signature (RFC 2866 3)."""
    head = _HEAD.pack(ACCOUNTING_REQUEST, identifier, 20 + len(attributes))
    return head + md5(head + _ZERO16 + attributes + secret.value).digest() + attributes


def reply_fault(reply: bytes, request_authenticator: bytes, secret: Secret) -> str:
    """The fault in a reply's form or signatures; "" if none.

    An access reply without Message-Authenticator counts as forged (BlastRADIUS, CVE-2024-3596).
    """
    if len(reply) < 20:
        return "shorter than a header"
    code, _, length = _HEAD.unpack_from(reply)
    if length != len(reply):
        return "length field and datagram differ"
    signed = reply[:4] + request_authenticator + reply[20:]
    if md5(signed + secret.value).digest() != reply[4:20]:
        return "Response Authenticator is wrong"
    # FreeRADIUS puts it first since 3.2.5, so the walk is the rare case.
    at = 20 if signed[20:21] == b"\x50" else _find(signed, MESSAGE_AUTHENTICATOR)
    if at < 0:
        return "" if code == ACCOUNTING_RESPONSE else "Message-Authenticator is missing"
    if secret.sign(signed[: at + 2] + _ZERO16 + signed[at + 18 :]) != signed[at + 2 : at + 18]:
        return "Message-Authenticator is wrong"
    return ""


def _find(packet: bytes, number: int) -> int:
    at, end = 20, len(packet)
    while at + 2 <= end:
        if packet[at] == number:
            return at
        at += max(packet[at + 1], 2)
    return -1


def parse_attributes(packet: bytes) -> Iterator[tuple[int, bytes]]:
    """(number, value) of each attribute, in order. ValueError where the lengths do not add up."""
    at, end = 20, len(packet)
    while at < end:
        length = packet[at + 1] if at + 1 < end else 0
        if length < 2 or at + length > end:
            raise ValueError(f"attribute at octet {at} of {end} has length {length}")
        yield packet[at], packet[at + 2 : at + length]
        at += length


def vlan_of(packet: bytes) -> str:
    """Tunnel-Private-Group-Id without its tag octet (RFC 2868 3.6: a tag is at most 0x1F); "" if missing."""
    at = _find(packet, TUNNEL_PRIVATE_GROUP_ID)
    if at < 0:
        return ""
    value = packet[at + 2 : at + packet[at + 1]]
    return (value[1:] if value[:1] <= b"\x1f" else value).decode("ascii", "replace")
