"""RADIUS packets between radiusd and the verifier: signed Access-Requests with name, password and slot (port pair).

In these requests, Reply-Message contains the attributes of the NAS's request. Packets and User-Password follow RFC
2865. Message-Authenticator follows RFC 3579 3.2; requests must contain the attribute, and responses contain the
attribute, too.
"""

from collections.abc import Sequence
from typing import NamedTuple

from nac.kit.radius_packet import (
    ACCESS_REQUEST,
    NAS_IDENTIFIER,
    PROXY_STATE,
    REPLY_MESSAGE,
    USER_NAME,
    USER_PASSWORD,
    MalformedPacket,
    RadiusAttribute,
    encode_attribute,
    is_signed,
    make_response,
    parse_packet,
    reveal_password,
)

_REPEATABLE = (REPLY_MESSAGE, PROXY_STATE)
_SLOT_PREFIX = b"slot_"
_MAX_SLOT_DIGITS = 5
# Maximum of RFC 2865 5.2.
_MAX_PASSWORD_BYTES = 128


class RejectedDatagram(ValueError):
    """The datagram is not a request of radiusd and must be dropped (RFC 2865 3, RFC 3579 3.2)."""


class UnreadableLogin(RejectedDatagram):
    """Request that radiusd has signed, but that contains invalid data of a device.

    The verifier must respond: radiusd treats a silent server as dead.
    """

    def __init__(self, login: "Login", why: str) -> None:
        super().__init__(why)
        # Has no slot, name or password.
        self.login = login


class Login(NamedTuple):
    identifier: int
    authenticator: bytes
    slot: int
    name: bytes
    # At most 128 octets, without padding (RFC 2865 5.2).
    password: bytes
    # Must be returned unchanged and in order (RFC 2865 5.33).
    proxy_states: tuple[bytes, ...]
    # Attributes of the NAS's request, split into pieces (identity_sources/verifier_messages.py); empty inside a tunnel.
    pairs: tuple[bytes, ...] = ()


def parse_login(datagram: bytes, secret: bytes) -> Login:
    """Parse the login in a datagram.

    Raises RejectedDatagram if the datagram is not signed with `secret`, or UnreadableLogin.
    """
    try:
        packet = parse_packet(datagram)
        if packet.code != ACCESS_REQUEST:
            raise RejectedDatagram("not an Access-Request")
        signed = is_signed(packet, packet.authenticator, secret)
    except MalformedPacket as exc:
        raise RejectedDatagram(str(exc)) from exc
    if not signed:
        raise RejectedDatagram("signed with another secret" if signed is False else "not one Message-Authenticator")
    attributes = packet.attributes
    proxy_states = tuple(value for number, value in attributes if number == PROXY_STATE)
    login = Login(packet.identifier, packet.authenticator, 0, b"", b"", proxy_states)
    try:
        return _read_login(login, attributes, secret)
    except RejectedDatagram as exc:
        raise UnreadableLogin(login, str(exc)) from exc


def _read_login(login: Login, attributes: Sequence[RadiusAttribute], secret: bytes) -> Login:
    values: dict[int, bytes] = {}
    for number, value in attributes:
        if number in values and number not in _REPEATABLE:
            raise RejectedDatagram(f"attribute {number} is repeated")
        values[number] = value
    if not values.keys() >= {USER_NAME, USER_PASSWORD, NAS_IDENTIFIER}:
        raise RejectedDatagram("name, password or slot is missing")
    return login._replace(
        slot=_parse_slot(values[NAS_IDENTIFIER]),
        name=values[USER_NAME],
        password=_reveal_password(values[USER_PASSWORD], login.authenticator, secret),
        pairs=tuple(value for number, value in attributes if number == REPLY_MESSAGE),
    )


def make_response_packet(login: Login, code: int, messages: Sequence[bytes], secret: bytes) -> bytes:
    """Access-Accept or Access-Reject with these Reply-Message values, signed in two ways (RFC 2865 3, RFC 3579 3.2)."""
    attributes = [encode_attribute(REPLY_MESSAGE, message) for message in messages]
    attributes += [encode_attribute(PROXY_STATE, state) for state in login.proxy_states]
    return make_response(code, login.identifier, login.authenticator, b"".join(attributes), secret)


def _parse_slot(name: bytes) -> int:
    digits = name.removeprefix(_SLOT_PREFIX)
    if digits == name or not digits.isdigit() or len(digits) > _MAX_SLOT_DIGITS:
        raise RejectedDatagram("invalid slot name")
    return int(digits)


def _reveal_password(hidden: bytes, authenticator: bytes, secret: bytes) -> bytes:
    if len(hidden) > _MAX_PASSWORD_BYTES:
        raise RejectedDatagram("invalid password length")
    try:
        return reveal_password(hidden, authenticator, secret).rstrip(b"\0")
    except ValueError as exc:
        raise RejectedDatagram(str(exc)) from exc
