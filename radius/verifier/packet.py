"""RADIUS between radiusd and the verifier: signed Access-Requests with name, password and slot.

Reply-Message carries the attributes of the NAS's request. RFC 2865 (packets, User-Password), RFC 3579 3.2
(Message-Authenticator, required in requests and sent in responses).
"""

import struct
from collections.abc import Sequence
from typing import NamedTuple

from radius import wire
from radius.wire import MAX_PACKET_BYTES

__all__ = [
    "ACCESS_ACCEPT",
    "ACCESS_REJECT",
    "MAX_PACKET_BYTES",
    "Login",
    "RejectedDatagram",
    "UnreadableLogin",
    "make_response_packet",
    "parse_login",
]

ACCESS_REQUEST, ACCESS_ACCEPT, ACCESS_REJECT = 1, 2, 3
_USER_NAME, _USER_PASSWORD, _REPLY_MESSAGE, _NAS_IDENTIFIER, _PROXY_STATE = 1, 2, 18, 32, 33
_REPEATABLE = (_REPLY_MESSAGE, _PROXY_STATE)
_SLOT_PREFIX = b"slot_"
_MAX_SLOT_DIGITS = 5


class RejectedDatagram(ValueError):
    """Not a request from radiusd: dropped (RFC 2865 3, RFC 3579 3.2)."""


class UnreadableLogin(RejectedDatagram):
    """Signed by radiusd, but with invalid data from a device. Must be answered: a silent server counts as dead."""

    def __init__(self, login: "Login", why: str) -> None:
        super().__init__(why)
        # Without slot, name and password.
        self.login = login


class Login(NamedTuple):
    identifier: int
    authenticator: bytes
    slot: int
    name: bytes
    # RFC 2865 5.2: at most 128 octets, without padding.
    password: bytes
    # Returned unchanged and in order (RFC 2865 5.33).
    proxy_states: tuple[bytes, ...]
    # Attributes of the NAS's request in pieces (identity_sources/verifier_messages.py); empty inside a tunnel.
    pairs: tuple[bytes, ...] = ()


def parse_login(datagram: bytes, secret: bytes) -> Login:
    """Parse the login in a datagram. Raises Refused if it is not signed with `secret`, or Unreadable."""
    try:
        packet = wire.parse_packet(datagram)
        if packet.code != ACCESS_REQUEST:
            raise RejectedDatagram("not an Access-Request")
        signed = wire.is_signed(packet, packet.authenticator, secret)
    except wire.MalformedPacket as exc:
        raise RejectedDatagram(str(exc)) from exc
    if not signed:
        raise RejectedDatagram("signed with another secret" if signed is False else "not one Message-Authenticator")
    attributes = packet.attributes
    proxy_states = tuple(value for number, value, _ in attributes if number == _PROXY_STATE)
    login = Login(packet.identifier, packet.authenticator, 0, b"", b"", proxy_states)
    try:
        return _read_login(login, attributes, secret)
    except RejectedDatagram as exc:
        raise UnreadableLogin(login, str(exc)) from exc


def _read_login(login: Login, attributes: Sequence[wire.RadiusAttribute], secret: bytes) -> Login:
    values: dict[int, bytes] = {}
    for number, value, _ in attributes:
        if number in values and number not in _REPEATABLE:
            raise RejectedDatagram(f"attribute {number} is repeated")
        values[number] = value
    if not values.keys() >= {_USER_NAME, _USER_PASSWORD, _NAS_IDENTIFIER}:
        raise RejectedDatagram("name, password or slot is missing")
    return login._replace(
        slot=_parse_slot(values[_NAS_IDENTIFIER]),
        name=values[_USER_NAME],
        password=_reveal_password(values[_USER_PASSWORD], login.authenticator, secret),
        pairs=tuple(value for number, value, _ in attributes if number == _REPLY_MESSAGE),
    )


def make_response_packet(login: Login, code: int, messages: Sequence[bytes], secret: bytes) -> bytes:
    """An Access-Accept or Access-Reject with these Reply-Message values, signed twice (RFC 2865 3, RFC 3579 3.2)."""
    body = b"".join(
        (
            wire.empty_message_authenticator(),
            *(wire.encode_attribute(_REPLY_MESSAGE, message) for message in messages),
            *(wire.encode_attribute(_PROXY_STATE, state) for state in login.proxy_states),
        )
    )
    head = struct.pack("!BBH", code, login.identifier, wire.MIN_PACKET_BYTES + len(body))
    body = wire.sign(head, login.authenticator, body, secret)
    return head + wire.md5(head + login.authenticator + body + secret) + body


def _parse_slot(name: bytes) -> int:
    digits = name.removeprefix(_SLOT_PREFIX)
    if digits == name or not digits.isdigit() or len(digits) > _MAX_SLOT_DIGITS:
        raise RejectedDatagram("invalid slot name")
    return int(digits)


def _reveal_password(hidden: bytes, authenticator: bytes, secret: bytes) -> bytes:
    """RFC 2865 5.2."""
    if not hidden or len(hidden) % 16 or len(hidden) > 128:
        raise RejectedDatagram("invalid password length")
    plain, last = b"", authenticator
    for at in range(0, len(hidden), 16):
        block = hidden[at : at + 16]
        mask = wire.md5(secret + last)
        plain += bytes(left ^ right for left, right in zip(block, mask, strict=True))
        last = block
    return plain.rstrip(b"\0")
