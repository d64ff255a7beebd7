"""Common parts of RADIUS packets of all kinds (RFC 2865 3 and 5, RFC 3579 3.2)."""

import hmac
import struct
from collections.abc import Sequence
from hashlib import md5 as _md5
from typing import NamedTuple

# Code, identifier, length, authenticator.
HEADER = struct.Struct("!BBH16s")
MIN_PACKET_BYTES, MAX_PACKET_BYTES = HEADER.size, 4096
MESSAGE_AUTHENTICATOR = 80
_NO_SIGNATURE = bytes(16)


class MalformedPacket(ValueError):
    """No RADIUS packet."""


class RadiusAttribute(NamedTuple):
    number: int
    value: bytes
    # Where the value begins in the packet.
    at: int


class RadiusPacket(NamedTuple):
    code: int
    identifier: int
    authenticator: bytes
    attributes: tuple[RadiusAttribute, ...]
    # Without what comes after its length, which is padding (RFC 2865 3).
    octets: bytes


def parse_packet(datagram: bytes) -> RadiusPacket:
    """Raises Malformed."""
    if not MIN_PACKET_BYTES <= len(datagram) <= MAX_PACKET_BYTES:
        raise MalformedPacket("no RADIUS packet has this size")
    code, identifier, length, authenticator = HEADER.unpack_from(datagram)
    if not MIN_PACKET_BYTES <= length <= len(datagram):
        raise MalformedPacket("it is shorter than it says")
    octets = datagram[:length]
    return RadiusPacket(code, identifier, authenticator, tuple(_parse_attributes(octets)), octets)


def _parse_attributes(octets: bytes) -> list[RadiusAttribute]:
    attributes = []
    at = MIN_PACKET_BYTES
    while at < len(octets):
        if at + 2 > len(octets) or octets[at + 1] < 2 or at + octets[at + 1] > len(octets):
            raise MalformedPacket("an attribute ends beyond the packet")
        attributes.append(RadiusAttribute(octets[at], octets[at + 2 : at + octets[at + 1]], at + 2))
        at += octets[at + 1]
    return attributes


def encode_attribute(number: int, value: bytes) -> bytes:
    """Raises ValueError where the value does not fit (RFC 2865 5)."""
    return bytes((number, len(value) + 2)) + value


def empty_message_authenticator() -> bytes:
    """The Message-Authenticator that `sign` fills in; it comes first in a packet."""
    return encode_attribute(MESSAGE_AUTHENTICATOR, _NO_SIGNATURE)


def sign(head: bytes, authenticator: bytes, attributes: bytes, secret: bytes) -> bytes:
    """`attributes`, which begin with `unsigned_message()`, with the signature in it."""
    signature = hmac.digest(secret, head + authenticator + attributes, "md5")
    return attributes[:2] + signature + attributes[2 + len(signature) :]


def is_signed(packet: RadiusPacket, authenticator: bytes, secret: bytes) -> bool | None:
    """Whether the Message-Authenticator is valid, with `authenticator` in the head; None if missing.

    Raises Malformed if there are several, or one of another length.
    """
    signed: Sequence[RadiusAttribute] = [each for each in packet.attributes if each.number == MESSAGE_AUTHENTICATOR]
    if not signed:
        return None
    if len(signed) != 1 or len(signed[0].value) != len(_NO_SIGNATURE):
        raise MalformedPacket("not one Message-Authenticator")
    [(_, value, at)] = signed
    octets = packet.octets
    expected = hmac.digest(
        secret, octets[:4] + authenticator + octets[MIN_PACKET_BYTES:at] + _NO_SIGNATURE + octets[at + 16 :], "md5"
    )
    return hmac.compare_digest(expected, value)


def md5(data: bytes) -> bytes:
    return _md5(data, usedforsecurity=False).digest()
