"""RADIUS between radiusd and the verifier: signed Access-Requests with name, password and slot.

Reply-Message carries the attributes of the NAS's request. RFC 2865 (packets, User-Password), RFC 3579 3.2
(Message-Authenticator, required in requests and sent in responses).
"""

import struct
from collections.abc import Sequence
from typing import NamedTuple

from radius import wire
from radius.wire import MOST

__all__ = ["ACCESS_ACCEPT", "ACCESS_REJECT", "MOST", "Login", "Refused", "Unreadable", "answer_packet", "parse_login"]

ACCESS_REQUEST, ACCESS_ACCEPT, ACCESS_REJECT = 1, 2, 3
_USER_NAME, _USER_PASSWORD, _REPLY_MESSAGE, _NAS_IDENTIFIER, _PROXY_STATE = 1, 2, 18, 32, 33
_SEVERAL = (_REPLY_MESSAGE, _PROXY_STATE)
_SLOT_PREFIX = b"slot_"
_MAX_SLOT_DIGITS = 5


class Refused(ValueError):
    """Not a request from radiusd: dropped (RFC 2865 3, RFC 3579 3.2)."""


class Unreadable(Refused):
    """Signed by radiusd, but with invalid data from a device. Must be answered: a silent server counts as dead."""

    def __init__(self, asked: "Login", why: str) -> None:
        super().__init__(why)
        # Without slot, name and password.
        self.asked = asked


class Login(NamedTuple):
    identifier: int
    authenticator: bytes
    slot: int
    name: bytes
    # RFC 2865 5.2: at most 128 octets, without padding.
    password: bytes
    # Returned unchanged and in order (RFC 2865 5.33).
    proxy_states: tuple[bytes, ...]
    # Attributes of the NAS's request in pieces (nac.identities.verifier_messages); empty inside a tunnel.
    pairs: tuple[bytes, ...] = ()


def parse_login(datagram: bytes, secret: bytes) -> Login:
    """Parse the login in a datagram. Raises Refused if it is not signed with `secret`, or Unreadable."""
    try:
        packet = wire.parse(datagram)
        if packet.code != ACCESS_REQUEST:
            raise Refused("not an Access-Request")
        signed = wire.is_signed(packet, packet.authenticator, secret)
    except wire.Malformed as exc:
        raise Refused(str(exc)) from exc
    if not signed:
        raise Refused("signed with another secret" if signed is False else "not one Message-Authenticator")
    attributes = packet.attributes
    proxy_states = tuple(value for number, value, _ in attributes if number == _PROXY_STATE)
    asked = Login(packet.identifier, packet.authenticator, 0, b"", b"", proxy_states)
    try:
        return _read(asked, attributes, secret)
    except Refused as exc:
        raise Unreadable(asked, str(exc)) from exc


def _read(asked: Login, attributes: Sequence[wire.Attribute], secret: bytes) -> Login:
    values: dict[int, bytes] = {}
    for number, value, _ in attributes:
        if number in values and number not in _SEVERAL:
            raise Refused(f"attribute {number} is repeated")
        values[number] = value
    if not values.keys() >= {_USER_NAME, _USER_PASSWORD, _NAS_IDENTIFIER}:
        raise Refused("name, password or slot is missing")
    return asked._replace(
        slot=_slot(values[_NAS_IDENTIFIER]),
        name=values[_USER_NAME],
        password=_unhide(values[_USER_PASSWORD], asked.authenticator, secret),
        pairs=tuple(value for number, value, _ in attributes if number == _REPLY_MESSAGE),
    )


def answer_packet(login: Login, code: int, messages: Sequence[bytes], secret: bytes) -> bytes:
    """An Access-Accept or Access-Reject with these Reply-Message values, signed twice (RFC 2865 3, RFC 3579 3.2)."""
    body = b"".join(
        (
            wire.unsigned_message(),
            *(wire.attribute(_REPLY_MESSAGE, message) for message in messages),
            *(wire.attribute(_PROXY_STATE, state) for state in login.proxy_states),
        )
    )
    head = struct.pack("!BBH", code, login.identifier, wire.LEAST + len(body))
    body = wire.sign(head, login.authenticator, body, secret)
    return head + wire.md5(head + login.authenticator + body + secret) + body


def _slot(name: bytes) -> int:
    digits = name.removeprefix(_SLOT_PREFIX)
    if digits == name or not digits.isdigit() or len(digits) > _MAX_SLOT_DIGITS:
        raise Refused("invalid slot name")
    return int(digits)


def _unhide(hidden: bytes, authenticator: bytes, secret: bytes) -> bytes:
    """RFC 2865 5.2."""
    if not hidden or len(hidden) % 16 or len(hidden) > 128:
        raise Refused("invalid password length")
    plain, last = b"", authenticator
    for at in range(0, len(hidden), 16):
        block = hidden[at : at + 16]
        mask = wire.md5(secret + last)
        plain += bytes(left ^ right for left, right in zip(block, mask, strict=True))
        last = block
    return plain.rstrip(b"\0")
