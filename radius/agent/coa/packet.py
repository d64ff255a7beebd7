"""Packets of Disconnect- and CoA-Requests and their responses (RFC 5176 2.2, 2.3, 3)."""

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from nac.engine.dictionary import Dictionary, codec
from nac.engine.vendors import Recipe, RecipeStep
from nac.kit import radius_packet
from nac.kit.radius_packet import (
    ACCT_SESSION_ID,
    CALLING_STATION_ID,
    COA_REQUEST,
    DISCONNECT_REQUEST,
    ERROR_CAUSE,
    EVENT_TIMESTAMP,
    FRAMED_IP_ADDRESS,
    MAX_VALUE_BYTES,
    NAS_IDENTIFIER,
    NAS_IP_ADDRESS,
    NAS_IPV6_ADDRESS,
    NAS_PORT,
    NAS_PORT_ID,
    USER_NAME,
    ForgedResponse,
    MalformedPacket,
    UnsignedResponse,
    encode_attribute,
    make_coa_request,
)

# Code of each kind of request. The code of the ACK is this code + 1, the code of the NAK this code + 2.
_CODES = {"disconnect": DISCONNECT_REQUEST, "coa": COA_REQUEST}
ResponseFault = Literal["malformed", "forged", "unsigned", "wrong_code"]


@dataclass(frozen=True, slots=True)
class SessionIdentifiers:
    """Attributes by which the NAS identifies the session. An unknown attribute is ""."""

    session_id: str
    # 12 hex digits.
    mac: str
    user: str
    nas_port: str
    framed_ip: str
    # As in sessions.nas_key: identifier and address that the NAS reported.
    nas_key: str


@dataclass(frozen=True, slots=True)
class CoaResponse:
    code: int
    accepted: bool
    # Error-Cause (RFC 5176 3.5); 0 if absent.
    error_cause: int


class DiscardedResponse(Exception):
    """The packet is not a valid response to the request. `fault` is the name of the counter for this fault."""

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
    """Encode the attributes without Event-Timestamp and Message-Authenticator.

    Raises ValueError if the dictionary rejects an attribute.
    """
    named = [made for name in recipe.identify for made in _identifier_attributes(name, recipe, facts)]
    requested: list[tuple[str, str, int | None]] = [(name, value, None) for name, value in step.attributes]
    requested += changes if step.send == "coa" else ()
    encoded = (codec.encode_attribute(dictionary, name, value, tag) for name, value, tag in requested)
    return b"".join((*named, *encoded))


def make_request_packet(step: RecipeStep, identifier: int, attributes: bytes, *, at: int, secret: bytes) -> bytes:
    """Return the signed packet (RFC 5176 2.3, 3.4). `at` is in epoch seconds.

    Raises ValueError if the packet is too long.
    """
    return make_coa_request(_CODES[step.send], identifier, encode_attribute(EVENT_TIMESTAMP, at) + attributes, secret)


def parse_response(datagram: bytes, request: bytes, secret: bytes, *, signed: bool) -> CoaResponse:
    """Parse the response to `request`. If `signed` is true, the response must have a Message-Authenticator.

    Raises DiscardedResponse if the packet is not authentic (RFC 5176 2.3). After DiscardedResponse, the caller
    continues to wait for the response.
    """
    try:
        packet = radius_packet.parse_response(datagram, request, secret, requires_signature=signed)
    except MalformedPacket as exc:
        raise DiscardedResponse("malformed") from exc
    except ForgedResponse as exc:
        raise DiscardedResponse("forged") from exc
    except UnsignedResponse as exc:
        raise DiscardedResponse("unsigned") from exc
    if packet.code not in (request[0] + 1, request[0] + 2):
        raise DiscardedResponse("wrong_code")
    causes = [value for number, value in packet.attributes if number == ERROR_CAUSE and len(value) == 4]
    return CoaResponse(packet.code, packet.code == request[0] + 1, int.from_bytes(causes[0], "big") if causes else 0)


def _identifier_attributes(name: str, recipe: Recipe, facts: SessionIdentifiers) -> list[bytes]:
    identifier, _, stated = facts.nas_key.rpartition("|")
    match name:
        case "NAS-Identifier":
            return _text_attribute(NAS_IDENTIFIER, identifier)
        case "NAS-IP-Address":
            return _address_attribute(stated)
        case "NAS-Port":
            return _port_attribute(facts.nas_port)
        case "User-Name":
            return _text_attribute(USER_NAME, facts.user)
        case "Acct-Session-Id":
            return _text_attribute(ACCT_SESSION_ID, facts.session_id)
        case "Calling-Station-Id":
            return _text_attribute(CALLING_STATION_ID, recipe.format_station(facts.mac) if facts.mac else "")
        case _:
            return _address_attribute(facts.framed_ip, FRAMED_IP_ADDRESS) if ":" not in facts.framed_ip else []


def _text_attribute(number: int, text: str) -> list[bytes]:
    """Encode an attribute with a text.

    Returns no attribute for a text that radiusd escaped, because the NAS would not recognize the escaped text.
    """
    value = text.encode(errors="replace")
    known = value and len(value) <= MAX_VALUE_BYTES and text.isprintable() and "\\" not in text
    return [encode_attribute(number, value)] if known else []


def _address_attribute(text: str, number: int = NAS_IP_ADDRESS) -> list[bytes]:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return []
    return [encode_attribute(number if address.version == 4 else NAS_IPV6_ADDRESS, address.packed)]


def _port_attribute(text: str) -> list[bytes]:
    if text.isascii() and text.isdecimal() and int(text) < 2**32:
        return [encode_attribute(NAS_PORT, int(text))]
    return _text_attribute(NAS_PORT_ID, text)
