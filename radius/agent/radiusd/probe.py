"""Probes of a radiusd by Status-Server (RFC 5997), and by an Access-Request with a MAC address."""

import os
import socket
import struct
import time
from collections.abc import Callable

from nac.kit.radius_packet import (
    ACCESS_ACCEPT,
    ACCESS_REJECT,
    ACCESS_REQUEST,
    ACCOUNTING_RESPONSE,
    CALLING_STATION_ID,
    MAX_PACKET_BYTES,
    NAS_IDENTIFIER,
    SERVICE_TYPE,
    STATUS_SERVER,
    USER_NAME,
    VENDOR_SPECIFIC,
    ForgedResponse,
    MalformedPacket,
    RadiusPacket,
    encode_attribute,
    make_access_request,
    parse_response,
)
from radius.module.settings import CANARY_MAC, CANARY_NAS

_CALL_CHECK = 10
# FreeRADIUS-Statistics-Type (vendor 11344, attribute 127): the sum of 1 (authentication) and 2 (accounting).
_FREERADIUS_VENDOR = 11344
_STATISTICS = struct.Struct("!IBBI")
_STATISTICS_REQUEST = encode_attribute(VENDOR_SPECIFIC, _STATISTICS.pack(_FREERADIUS_VENDOR, 127, 6, 3))
# Attribute numbers of FreeRADIUS-Total-* (dictionary.freeradius). "invalid" counts wrong secrets and bad
# authenticators.
STATISTICS = {
    128: "access_requests",
    129: "access_accepts",
    130: "access_rejects",
    131: "access_challenges",
    133: "auth_duplicates",
    134: "auth_malformed",
    135: "auth_invalid",
    136: "auth_dropped",
    137: "auth_unknown_types",
    148: "accounting_requests",
    149: "accounting_responses",
    150: "acct_duplicates",
    151: "acct_malformed",
    152: "acct_invalid",
    153: "acct_dropped",
    154: "acct_unknown_types",
}
_EXPECTED_CODES = {
    STATUS_SERVER: (ACCESS_ACCEPT, ACCOUNTING_RESPONSE),
    ACCESS_REQUEST: (ACCESS_ACCEPT, ACCESS_REJECT),
}


def is_serving(address: str, port: int, secret: str, *, seconds: float) -> bool:
    """Whether radiusd sends a verified response to Status-Server within `seconds`. Repeats the request every 100 ms."""
    return _request_until_answered(address, port, secret.encode(), STATUS_SERVER, b"", seconds) is not None


def is_deciding(
    address: str, port: int, secret: str, *, seconds: float, alive: Callable[[], bool] = lambda: True
) -> bool:
    """Whether the module decides about an Access-Request.

    radiusd must send a verified reject for an unknown MAC address.

    Stops early if `alive` returns False, which means that radiusd has ended.
    """
    attributes = (
        encode_attribute(USER_NAME, CANARY_MAC)
        + encode_attribute(CALLING_STATION_ID, CANARY_MAC)
        + encode_attribute(NAS_IDENTIFIER, CANARY_NAS)
        + encode_attribute(SERVICE_TYPE, _CALL_CHECK)
    )
    return (
        _request_until_answered(address, port, secret.encode(), ACCESS_REQUEST, attributes, seconds, alive) is not None
    )


def get_statistics(address: str, port: int, secret: str, *, seconds: float) -> dict[str, int] | None:
    """Counters of radiusd since its start, with the names of STATISTICS; None if radiusd does not respond."""
    reply = _request_until_answered(address, port, secret.encode(), STATUS_SERVER, _STATISTICS_REQUEST, seconds)
    if reply is None:
        return None
    counted = {}
    for attribute, octets in reply.attributes:
        if attribute == VENDOR_SPECIFIC and len(octets) == _STATISTICS.size:
            vendor, number, _, value = _STATISTICS.unpack(octets)
            if vendor == _FREERADIUS_VENDOR and number in STATISTICS:
                counted[STATISTICS[number]] = value
    return counted


def run_port_step(port: int, secret: str, word: str, *, seconds: float) -> bool:
    """Send the command `word` of radius/module/ports.py to radiusd. Returns whether radiusd confirms the command.

    The response may come from another port, which radiusd has just taken over.
    """
    request = _make_request(STATUS_SERVER, encode_attribute(USER_NAME, word), secret.encode())
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        asking.settimeout(seconds)
        asking.sendto(request, ("127.0.0.1", port))
        try:
            datagram = asking.recv(MAX_PACKET_BYTES)
        except TimeoutError:
            return False
    reply = _read_reply(datagram, request, secret.encode())
    return reply is not None and reply.code == ACCESS_ACCEPT


def _request_until_answered(
    address: str,
    port: int,
    secret: bytes,
    code: int,
    attributes: bytes,
    seconds: float,
    alive: Callable[[], bool] = lambda: True,
) -> RadiusPacket | None:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    deadline = time.monotonic() + seconds
    # Repeat the same packet. With a reject delay longer than the pause, a new packet would never get a response.
    request = _make_request(code, attributes, secret)
    with socket.socket(family, socket.SOCK_DGRAM) as asking:
        asking.connect((address, port))
        while (left := deadline - time.monotonic()) > 0 and alive():
            asking.settimeout(min(0.5 if code == ACCESS_REQUEST else 0.1, left))
            try:
                asking.send(request)
                datagram = asking.recv(MAX_PACKET_BYTES)
            except TimeoutError:
                continue
            except ConnectionRefusedError:
                time.sleep(0.02)
                continue
            reply = _read_reply(datagram, request, secret)
            if reply is not None and reply.code in _EXPECTED_CODES[code]:
                return reply
    return None


def _make_request(code: int, attributes: bytes, secret: bytes) -> bytes:
    return make_access_request(os.urandom(1)[0], os.urandom(16), attributes, secret, code=code)


def _read_reply(datagram: bytes, request: bytes, secret: bytes) -> RadiusPacket | None:
    try:
        return parse_response(datagram, request, secret, requires_signature=False)
    except (MalformedPacket, ForgedResponse):
        return None
