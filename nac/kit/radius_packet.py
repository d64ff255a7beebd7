"""RADIUS packets: functions to encode, sign, parse and verify them.

RFC 2865 3 and 5 (packets, User-Password), RFC 2866 3 (accounting), RFC 3579 3.1 and 3.2 (EAP-Message,
Message-Authenticator), RFC 5176 2.3 (Disconnect and CoA), RFC 3580 3.31 (VLAN). Imports only the standard library,
because radiusd loads this module.
"""

import hmac
import struct
from hashlib import md5
from typing import NamedTuple

ACCESS_REQUEST, ACCESS_ACCEPT, ACCESS_REJECT, ACCESS_CHALLENGE = 1, 2, 3, 11
ACCOUNTING_REQUEST, ACCOUNTING_RESPONSE = 4, 5
STATUS_SERVER = 12
DISCONNECT_REQUEST, COA_REQUEST = 40, 43

USER_NAME, USER_PASSWORD, NAS_IP_ADDRESS, NAS_PORT, SERVICE_TYPE = 1, 2, 4, 5, 6
FRAMED_IP_ADDRESS, FRAMED_MTU, REPLY_MESSAGE, STATE, CLASS, VENDOR_SPECIFIC = 8, 12, 18, 24, 25, 26
CALLED_STATION_ID, CALLING_STATION_ID, NAS_IDENTIFIER, PROXY_STATE = 30, 31, 32, 33
ACCT_STATUS_TYPE, ACCT_DELAY_TIME, ACCT_INPUT_OCTETS, ACCT_OUTPUT_OCTETS, ACCT_SESSION_ID = 40, 41, 42, 43, 44
ACCT_AUTHENTIC, ACCT_SESSION_TIME, ACCT_INPUT_PACKETS, ACCT_OUTPUT_PACKETS, ACCT_TERMINATE_CAUSE = 45, 46, 47, 48, 49
ACCT_INPUT_GIGAWORDS, ACCT_OUTPUT_GIGAWORDS, EVENT_TIMESTAMP, NAS_PORT_TYPE = 52, 53, 55, 61
CONNECT_INFO, EAP_MESSAGE, MESSAGE_AUTHENTICATOR, TUNNEL_PRIVATE_GROUP_ID, NAS_PORT_ID = 77, 79, 80, 81, 87
NAS_IPV6_ADDRESS, ERROR_CAUSE = 95, 101

# Packet header: code, identifier, length, authenticator.
_HEADER = struct.Struct("!BBH16s")
MIN_PACKET_BYTES, MAX_PACKET_BYTES, MAX_VALUE_BYTES = _HEADER.size, 4096, 253
_BLOCK_BYTES = 16
_NO_SIGNATURE = bytes(16)
_SIGNATURE_HEAD = bytes((MESSAGE_AUTHENTICATOR, 2 + len(_NO_SIGNATURE)))
# Maximum tag of a tunnel attribute. A higher first octet is part of the value (RFC 2868 3.6).
_MAX_TAG = 0x1F


class MalformedPacket(ValueError):
    """The octets are not a valid RADIUS packet."""


class ForgedResponse(ValueError):
    """The response is signed with a wrong secret, or belongs to another request."""


class UnsignedResponse(ValueError):
    """The response has no Message-Authenticator (BlastRADIUS, CVE-2024-3596)."""


# Number and value of an attribute.
RadiusAttribute = tuple[int, bytes]


class RadiusPacket(NamedTuple):
    code: int
    identifier: int
    authenticator: bytes
    attributes: tuple[RadiusAttribute, ...]
    # The packet without padding. The length field is the end of the packet (RFC 2865 3).
    octets: bytes


def encode_attribute(number: int, value: bytes | str | int) -> bytes:
    """Encode an attribute. An integer becomes 4 octets. Raises ValueError if the value is longer than 253 octets."""
    if isinstance(value, int):
        value = value.to_bytes(4)
    elif isinstance(value, str):
        value = value.encode()
    if len(value) > MAX_VALUE_BYTES:
        raise ValueError(f"attribute {number} has {len(value)} octets, more than {MAX_VALUE_BYTES}")
    return bytes((number, len(value) + 2)) + value


def encode_eap_message(eap: bytes) -> bytes:
    """Encode an EAP packet as one or several EAP-Message attributes."""
    pieces = (eap[at : at + MAX_VALUE_BYTES] for at in range(0, len(eap), MAX_VALUE_BYTES))
    return b"".join(encode_attribute(EAP_MESSAGE, piece) for piece in pieces)


def hide_password(password: bytes, authenticator: bytes, secret: bytes) -> bytes:
    """Encrypt the value of a User-Password attribute (RFC 2865 5.2)."""
    padded = password.ljust(-(-max(len(password), 1) // _BLOCK_BYTES) * _BLOCK_BYTES, b"\0")
    hidden, last = b"", authenticator
    for at in range(0, len(padded), _BLOCK_BYTES):
        last = _mask_block(padded[at : at + _BLOCK_BYTES], last, secret)
        hidden += last
    return encode_attribute(USER_PASSWORD, hidden)


def reveal_password(hidden: bytes, authenticator: bytes, secret: bytes) -> bytes:
    """Decrypt the value of a User-Password attribute. Padding zeros remain. Raises ValueError for an invalid length."""
    if not hidden or len(hidden) % _BLOCK_BYTES:
        raise ValueError("invalid password length")
    plain, last = b"", authenticator
    for at in range(0, len(hidden), _BLOCK_BYTES):
        block = hidden[at : at + _BLOCK_BYTES]
        plain += _mask_block(block, last, secret)
        last = block
    return plain


def make_access_request(
    identifier: int,
    authenticator: bytes,
    attributes: bytes,
    secret: bytes,
    password: bytes | None = None,
    *,
    code: int = ACCESS_REQUEST,
) -> bytes:
    """Make an Access-Request with a Message-Authenticator.

    With the `code` of a Status-Server, make a Status-Server instead. The Message-Authenticator comes first, so that a
    server can verify it before it parses other attributes (CVE-2024-3596).
    """
    if password is not None:
        attributes = hide_password(password, authenticator, secret) + attributes
    return _make_signed(code, identifier, authenticator, attributes, secret)


def make_accounting_request(identifier: int, attributes: bytes, secret: bytes) -> bytes:
    """Make an Accounting-Request, which the Request Authenticator signs."""
    length = MIN_PACKET_BYTES + len(attributes)
    return _authenticate(_HEADER.pack(ACCOUNTING_REQUEST, identifier, length, _NO_SIGNATURE) + attributes, secret)


def make_coa_request(code: int, identifier: int, attributes: bytes, secret: bytes) -> bytes:
    """Make a Disconnect-Request or CoA-Request. Raises ValueError if the attributes do not fit into one packet."""
    packet = _make_signed(code, identifier, _NO_SIGNATURE, attributes, secret)
    if len(packet) > MAX_PACKET_BYTES:
        raise ValueError("the attributes do not fit into one packet")
    return _authenticate(packet, secret)


def make_response(code: int, identifier: int, request_authenticator: bytes, attributes: bytes, secret: bytes) -> bytes:
    """Make a response with a Message-Authenticator and a Response Authenticator."""
    return _authenticate(_make_signed(code, identifier, request_authenticator, attributes, secret), secret)


def parse_packet(datagram: bytes) -> RadiusPacket:
    """Parse a packet. Raises MalformedPacket."""
    if not MIN_PACKET_BYTES <= len(datagram) <= MAX_PACKET_BYTES:
        raise MalformedPacket("no RADIUS packet has this size")
    code, identifier, length, authenticator = _HEADER.unpack_from(datagram)
    if not MIN_PACKET_BYTES <= length <= len(datagram):
        raise MalformedPacket("the length field is invalid")
    octets = datagram[:length]
    return RadiusPacket(code, identifier, authenticator, parse_attributes(octets), octets)


def parse_attributes(octets: bytes) -> tuple[RadiusAttribute, ...]:
    """Return the attributes of a packet, in order. Raises MalformedPacket."""
    attributes = []
    at, end = MIN_PACKET_BYTES, len(octets)
    while at < end:
        length = octets[at + 1] if at + 1 < end else 0
        if length < 2 or at + length > end:
            raise MalformedPacket(f"attribute at octet {at} of {end} has length {length}")
        attributes.append((octets[at], octets[at + 2 : at + length]))
        at += length
    return tuple(attributes)


def parse_response(datagram: bytes, request: bytes, secret: bytes, *, requires_signature: bool = True) -> RadiusPacket:
    """Parse and verify the response to `request`.

    If `requires_signature` is true, the response must have a Message-Authenticator. An Accounting-Response never needs
    a Message-Authenticator. Raises MalformedPacket, ForgedResponse or UnsignedResponse. After an error, the caller must
    discard the packet and continue to wait.
    """
    packet = parse_packet(datagram)
    request_authenticator = request[4:MIN_PACKET_BYTES]
    if packet.identifier != request[1]:
        raise ForgedResponse("identifier of another request")
    if not is_authentic(packet, request_authenticator, secret):
        raise ForgedResponse("Response Authenticator is wrong")
    signed = is_signed(packet, request_authenticator, secret)
    if signed is False:
        raise ForgedResponse("Message-Authenticator is wrong")
    if signed is None and requires_signature and packet.code != ACCOUNTING_RESPONSE:
        raise UnsignedResponse("Message-Authenticator is missing")
    return packet


def is_authentic(packet: RadiusPacket, authenticator: bytes, secret: bytes) -> bool:
    """Return whether the packet's authenticator is valid.

    The authenticator is a digest of the packet with `authenticator` in the header.
    """
    octets = packet.octets
    expected = _md5(octets[:4] + authenticator + octets[MIN_PACKET_BYTES:] + secret)
    return hmac.compare_digest(expected, packet.authenticator)


def is_signed(packet: RadiusPacket, authenticator: bytes, secret: bytes) -> bool | None:
    """Return whether the Message-Authenticator is valid. The Message-Authenticator is a digest of the packet with
    `authenticator` in the header.

    Returns None if the attribute is missing. Raises MalformedPacket if the packet has several Message-Authenticators,
    or a Message-Authenticator with a wrong length.
    """
    signature, start = None, 0
    at = MIN_PACKET_BYTES
    for number, value in packet.attributes:
        if number == MESSAGE_AUTHENTICATOR:
            if signature is not None or len(value) != len(_NO_SIGNATURE):
                raise MalformedPacket("not one Message-Authenticator")
            signature, start = value, at + 2
        at += len(value) + 2
    if signature is None:
        return None
    octets = packet.octets
    unsigned = octets[:4] + authenticator + octets[MIN_PACKET_BYTES:start] + _NO_SIGNATURE + octets[start + 16 :]
    return hmac.compare_digest(hmac.digest(secret, unsigned, "md5"), signature)


def join_values(octets: bytes, number: int) -> bytes:
    """Join all values of an attribute such as EAP-Message in a packet. Returns b"" if the attribute is missing.

    Raises MalformedPacket.
    """
    return b"".join(value for each, value in parse_attributes(octets) if each == number)


def read_vlan(octets: bytes) -> str:
    """Return the Tunnel-Private-Group-Id of a packet without its tag octet; "" if the attribute is missing.

    Raises MalformedPacket.
    """
    value = next((value for number, value in parse_attributes(octets) if number == TUNNEL_PRIVATE_GROUP_ID), b"")
    return (value[1:] if value[:1] and value[0] <= _MAX_TAG else value).decode(errors="replace")


def _make_signed(code: int, identifier: int, authenticator: bytes, attributes: bytes, secret: bytes) -> bytes:
    length = MIN_PACKET_BYTES + len(_SIGNATURE_HEAD) + len(_NO_SIGNATURE) + len(attributes)
    header = _HEADER.pack(code, identifier, length, authenticator) + _SIGNATURE_HEAD
    return header + hmac.digest(secret, header + _NO_SIGNATURE + attributes, "md5") + attributes


def _authenticate(packet: bytes, secret: bytes) -> bytes:
    return packet[:4] + _md5(packet + secret) + packet[MIN_PACKET_BYTES:]


def _mask_block(block: bytes, previous: bytes, secret: bytes) -> bytes:
    mask = int.from_bytes(_md5(secret + previous))
    return (int.from_bytes(block) ^ mask).to_bytes(_BLOCK_BYTES)


def _md5(data: bytes) -> bytes:
    # RADIUS requires MD5.
    return md5(data, usedforsecurity=False).digest()
