"""Packets of Disconnect- and CoA-Requests and their responses (RFC 5176 2.2, 2.3, 3)."""

import hmac
import ipaddress
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from nac.engine.dictionary import Dictionary
from nac.engine.dictionary.encoding import encode_attribute
from nac.engine.vendors import Recipe, RecipeStep
from radius import wire

DISCONNECT_REQUEST, COA_REQUEST = 40, 43
# Its ACK and NAK have the next two codes.
_CODES = {"disconnect": DISCONNECT_REQUEST, "coa": COA_REQUEST}
_EVENT_TIMESTAMP, _ERROR_CAUSE = 55, 101
_USER_NAME, _NAS_IP, _NAS_PORT, _FRAMED_IP, _STATION, _NAS_IDENTIFIER, _SESSION_ID = 1, 4, 5, 8, 31, 32, 44
_NAS_PORT_ID, _NAS_IPV6 = 87, 95
_MAX_VALUE_BYTES = 253
ResponseFault = Literal["malformed", "forged", "unsigned", "wrong_code"]


@dataclass(frozen=True, slots=True)
class SessionIdentifiers:
    """Attributes by which the NAS knows the session; "" if unknown."""

    session_id: str
    # 12 hex digits.
    mac: str
    user: str
    nas_port: str
    framed_ip: str
    # As in sessions.nas_key: the NAS's own identification.
    nas_key: str


@dataclass(frozen=True, slots=True)
class CoaResponse:
    code: int
    accepted: bool
    # RFC 5176 3.5; 0 if none.
    error_cause: int


class DiscardedResponse(Exception):
    """The packet is no valid response to the request; `fault` is counted."""

    def __init__(self, fault: ResponseFault) -> None:
        super().__init__(fault)
        self.fault = fault


def encode_request_attributes(
    dictionary: Dictionary,
    recipe: Recipe,
    step: RecipeStep,
    facts: SessionIdentifiers,
    changes: Sequence[tuple[str, str, int | None]],
) -> bytes:
    """Attributes without timestamp and signature. Raises ValueError if the dictionary does not accept one."""
    named = [made for name in recipe.identify for made in _identifier_attributes(name, recipe, facts)]
    requested: list[tuple[str, str, int | None]] = [(name, value, None) for name, value in step.attributes]
    requested += changes if step.send == "coa" else ()
    return b"".join((*named, *(encode_attribute(dictionary, name, value, tag) for name, value, tag in requested)))


def make_request_packet(step: RecipeStep, identifier: int, attributes: bytes, *, at: int, secret: bytes) -> bytes:
    """Signed packet (RFC 5176 2.3, 3.4); `at` is epoch seconds. Raises ValueError if it is too long."""
    body = (
        wire.empty_message_authenticator() + wire.encode_attribute(_EVENT_TIMESTAMP, struct.pack("!I", at)) + attributes
    )
    if wire.MIN_PACKET_BYTES + len(body) > wire.MAX_PACKET_BYTES:
        raise ValueError("the attributes do not fit into one packet")
    head = struct.pack("!BBH", _CODES[step.send], identifier, wire.MIN_PACKET_BYTES + len(body))
    body = wire.sign(head, bytes(16), body, secret)
    return head + wire.md5(head + bytes(16) + body + secret) + body


def parse_response(datagram: bytes, request: bytes, secret: bytes, *, signed: bool) -> CoaResponse:
    """Parse the response to `request`. `signed`: require a Message-Authenticator.

    Raises Ignored: the caller discards packets that are not authentic (RFC 5176 2.3) and keeps waiting.
    """
    try:
        packet = wire.parse_packet(datagram)
        authenticator = request[4 : wire.MIN_PACKET_BYTES]
        octets = packet.octets
        expected = wire.md5(octets[:4] + authenticator + octets[wire.MIN_PACKET_BYTES :] + secret)
        if not hmac.compare_digest(expected, packet.authenticator):
            raise DiscardedResponse("forged")
        is_signed = wire.is_signed(packet, authenticator, secret)
    except wire.MalformedPacket as exc:
        raise DiscardedResponse("malformed") from exc
    if is_signed is False:
        raise DiscardedResponse("forged")
    if is_signed is None and signed:
        raise DiscardedResponse("unsigned")
    if packet.code not in (request[0] + 1, request[0] + 2):
        raise DiscardedResponse("wrong_code")
    causes = [each.value for each in packet.attributes if each.number == _ERROR_CAUSE and len(each.value) == 4]
    return CoaResponse(packet.code, packet.code == request[0] + 1, int.from_bytes(causes[0], "big") if causes else 0)


def _identifier_attributes(name: str, recipe: Recipe, facts: SessionIdentifiers) -> list[bytes]:
    identifier, _, stated = facts.nas_key.rpartition("|")
    match name:
        case "NAS-Identifier":
            return _text_attribute(_NAS_IDENTIFIER, identifier)
        case "NAS-IP-Address":
            return _address_attribute(stated)
        case "NAS-Port":
            return _port_attribute(facts.nas_port)
        case "User-Name":
            return _text_attribute(_USER_NAME, facts.user)
        case "Acct-Session-Id":
            return _text_attribute(_SESSION_ID, facts.session_id)
        case "Calling-Station-Id":
            return _text_attribute(_STATION, recipe.format_station(facts.mac) if facts.mac else "")
        case _:
            return _address_attribute(facts.framed_ip, _FRAMED_IP) if ":" not in facts.framed_ip else []


def _text_attribute(number: int, text: str) -> list[bytes]:
    """Encoded text; nothing for text that radiusd escaped, because the NAS would not recognize it."""
    value = text.encode(errors="replace")
    known = value and len(value) <= _MAX_VALUE_BYTES and text.isprintable() and "\\" not in text
    return [wire.encode_attribute(number, value)] if known else []


def _address_attribute(text: str, number: int = _NAS_IP) -> list[bytes]:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return []
    return [wire.encode_attribute(number if address.version == 4 else _NAS_IPV6, address.packed)]


def _port_attribute(text: str) -> list[bytes]:
    if text.isascii() and text.isdecimal() and int(text) < 2**32:
        return [wire.encode_attribute(_NAS_PORT, struct.pack("!I", int(text)))]
    return _text_attribute(_NAS_PORT_ID, text)
