"""RADIUS as radiusd speaks it to the verifier: signed Access-Requests with a name, a password and a slot.

RFC 2865 (packets, User-Password), RFC 3579 3.2 (Message-Authenticator, demanded of requests and put into answers).
"""

import hmac
import struct
from collections.abc import Sequence
from hashlib import md5
from typing import NamedTuple

ACCESS_REQUEST, ACCESS_ACCEPT, ACCESS_REJECT = 1, 2, 3
_USER_NAME, _USER_PASSWORD, _REPLY_MESSAGE, _NAS_IDENTIFIER, _PROXY_STATE = 1, 2, 18, 32, 33
_MESSAGE_AUTHENTICATOR = 80
_HEAD = struct.Struct("!BBH16s")
_LEAST, MOST = _HEAD.size, 4096
_SLOT_PREFIX = b"slot_"
_MAX_SLOT_DIGITS = 5


class Refused(ValueError):
    """No request of radiusd's: it is dropped (RFC 2865 3, RFC 3579 3.2)."""


class Unreadable(Refused):
    """Asked by radiusd, about what a device made up: to be answered, since one that never answers counts as dead."""

    def __init__(self, asked: "Login", why: str) -> None:
        super().__init__(why)
        # Without slot, name and password.
        self.asked = asked


class Login(NamedTuple):
    identifier: int
    authenticator: bytes
    slot: int
    name: bytes
    # RFC 2865 5.2: at most 128 octets, padding taken off.
    password: bytes
    # Returned as they came, in order (RFC 2865 5.33).
    proxy_states: tuple[bytes, ...]


def parse_login(datagram: bytes, secret: bytes) -> Login:
    """The login that a datagram asks about. Raises Refused, where it was not signed with `secret`, and Unreadable."""
    if not _LEAST <= len(datagram) <= MOST:
        raise Refused("no RADIUS packet has this size")
    code, identifier, length, authenticator = _HEAD.unpack_from(datagram)
    if code != ACCESS_REQUEST or not _LEAST <= length <= len(datagram):
        raise Refused("not an Access-Request")
    # RFC 2865 3: what comes after the length is padding.
    attributes = _split(datagram[:length])
    _require_signature(datagram[:length], attributes, secret)
    proxy_states = tuple(value for number, value, _ in attributes if number == _PROXY_STATE)
    asked = Login(identifier, authenticator, 0, b"", b"", proxy_states)
    try:
        return _read(asked, attributes, secret)
    except Refused as exc:
        raise Unreadable(asked, str(exc)) from exc


def _read(asked: Login, attributes: Sequence[tuple[int, bytes, int]], secret: bytes) -> Login:
    values: dict[int, bytes] = {}
    for number, value, _ in attributes:
        if number in values and number != _PROXY_STATE:
            raise Refused(f"attribute {number} comes twice")
        values[number] = value
    if not values.keys() >= {_USER_NAME, _USER_PASSWORD, _NAS_IDENTIFIER}:
        raise Refused("name, password or slot is missing")
    return asked._replace(
        slot=_slot(values[_NAS_IDENTIFIER]),
        name=values[_USER_NAME],
        password=_unhide(values[_USER_PASSWORD], asked.authenticator, secret),
    )


def answer_packet(login: Login, code: int, messages: Sequence[bytes], secret: bytes) -> bytes:
    """An Access-Accept or Access-Reject with these Reply-Message values, signed twice (RFC 2865 3, RFC 3579 3.2)."""
    body = b"".join(
        (
            bytes((_MESSAGE_AUTHENTICATOR, 18)) + bytes(16),
            *(_attribute(_REPLY_MESSAGE, message) for message in messages),
            *(_attribute(_PROXY_STATE, state) for state in login.proxy_states),
        )
    )
    head = struct.pack("!BBH", code, login.identifier, _LEAST + len(body))
    signature = hmac.digest(secret, head + login.authenticator + body, "md5")
    body = body[:2] + signature + body[18:]
    return head + _md5(head + login.authenticator + body + secret) + body


def _attribute(number: int, value: bytes) -> bytes:
    return bytes((number, len(value) + 2)) + value


def _split(packet: bytes) -> list[tuple[int, bytes, int]]:
    """Number, value and place of each attribute's value."""
    found = []
    at = _LEAST
    while at < len(packet):
        if at + 2 > len(packet) or packet[at + 1] < 2 or at + packet[at + 1] > len(packet):
            raise Refused("an attribute ends beyond the packet")
        number, length = packet[at], packet[at + 1]
        found.append((number, packet[at + 2 : at + length], at + 2))
        at += length
    return found


def _require_signature(packet: bytes, attributes: Sequence[tuple[int, bytes, int]], secret: bytes) -> None:
    signed = [(value, at) for number, value, at in attributes if number == _MESSAGE_AUTHENTICATOR]
    if len(signed) != 1 or len(signed[0][0]) != 16:
        raise Refused("not one Message-Authenticator")
    value, at = signed[0]
    expected = hmac.digest(secret, packet[:at] + bytes(16) + packet[at + 16 :], "md5")
    if not hmac.compare_digest(expected, value):
        raise Refused("signed with another secret")


def _slot(name: bytes) -> int:
    digits = name.removeprefix(_SLOT_PREFIX)
    if digits == name or not digits.isdigit() or len(digits) > _MAX_SLOT_DIGITS:
        raise Refused("no slot is named so")
    return int(digits)


def _unhide(hidden: bytes, authenticator: bytes, secret: bytes) -> bytes:
    """RFC 2865 5.2."""
    if not hidden or len(hidden) % 16 or len(hidden) > 128:
        raise Refused("a password of a length that there is not")
    plain, last = b"", authenticator
    for at in range(0, len(hidden), 16):
        block = hidden[at : at + 16]
        mask = _md5(secret + last)
        plain += bytes(left ^ right for left, right in zip(block, mask, strict=True))
        last = block
    return plain.rstrip(b"\0")


def _md5(data: bytes) -> bytes:
    return md5(data, usedforsecurity=False).digest()
