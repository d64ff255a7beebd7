"""Probes of a radiusd: Status-Server (RFC 5997), and an Access-Request with a MAC address."""

import hashlib
import hmac
import os
import socket
import struct
import time
from collections.abc import Callable

from radius.module.settings import CANARY_MAC, CANARY_NAS

STATUS_SERVER = 12
ACCESS_REQUEST = 1
# FreeRADIUS-Statistics-Type (vendor 11344, attribute 127): 1 authentication + 2 accounting.
_FREERADIUS_VENDOR = 11344
_STATISTICS_REQUEST = struct.pack("!BBIBBI", 26, 12, _FREERADIUS_VENDOR, 127, 6, 3)
# dictionary.freeradius, FreeRADIUS-Total-*; "invalid" are wrong secrets and bad authenticators.
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
EXPECTED_CODES = {STATUS_SERVER: (2, 5), ACCESS_REQUEST: (2, 3)}


def is_serving(address: str, port: int, secret: str, *, seconds: float) -> bool:
    """Whether a verified response to Status-Server comes within `seconds`; repeats every 100 ms."""
    return _request_until_answered(address, port, secret.encode(), STATUS_SERVER, b"", seconds) is not None


def is_deciding(
    address: str, port: int, secret: str, *, seconds: float, alive: Callable[[], bool] = lambda: True
) -> bool:
    """Whether the module answers an Access-Request. An unknown MAC address gets a verified reject.

    Stops early if `alive` returns False.
    """
    name = CANARY_MAC.encode()
    attributes = (
        _encode_attribute(1, name)
        + _encode_attribute(31, name)
        + _encode_attribute(32, CANARY_NAS.encode())
        + _encode_attribute(6, struct.pack("!I", 10))
    )
    return (
        _request_until_answered(address, port, secret.encode(), ACCESS_REQUEST, attributes, seconds, alive) is not None
    )


def get_statistics(address: str, port: int, secret: str, *, seconds: float) -> dict[str, int] | None:
    """Counters of radiusd since its start, by the names of STATISTICS; None if it does not respond."""
    reply = _request_until_answered(address, port, secret.encode(), STATUS_SERVER, _STATISTICS_REQUEST, seconds)
    if reply is None:
        return None
    counted = {}
    position = 20
    while position + 2 <= len(reply):
        kind, length = reply[position], reply[position + 1]
        if length < 2:
            break
        if kind == 26 and length == 12:
            vendor, number, _, value = struct.unpack_from("!IBBI", reply, position + 2)
            if vendor == _FREERADIUS_VENDOR and number in STATISTICS:
                counted[STATISTICS[number]] = value
        position += length
    return counted


def run_port_step(port: int, secret: str, word: str, *, seconds: float) -> bool:
    """Whether radiusd confirms the command `word` of radius/module/ports.py. Its response may come from another
    port, which it has just taken."""
    packet, authenticator = _make_request(STATUS_SERVER, _encode_attribute(1, word.encode()), secret.encode())
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        asking.settimeout(seconds)
        asking.sendto(packet, ("127.0.0.1", port))
        try:
            reply = asking.recv(4096)
        except TimeoutError:
            return False
    return _is_verified(reply, packet, authenticator, secret.encode()) and reply[0] == EXPECTED_CODES[STATUS_SERVER][0]


def _request_until_answered(
    address: str,
    port: int,
    secret: bytes,
    code: int,
    attributes: bytes,
    seconds: float,
    alive: Callable[[], bool] = lambda: True,
) -> bytes | None:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    deadline = time.monotonic() + seconds
    # Repeat one packet: with a reject delay longer than the pause, another packet would never get a response.
    packet, authenticator = _make_request(code, attributes, secret)
    with socket.socket(family, socket.SOCK_DGRAM) as asking:
        asking.connect((address, port))
        while (left := deadline - time.monotonic()) > 0 and alive():
            asking.settimeout(min(0.5 if code == ACCESS_REQUEST else 0.1, left))
            try:
                asking.send(packet)
                reply = asking.recv(4096)
            except TimeoutError:
                continue
            except ConnectionRefusedError:
                time.sleep(0.02)
                continue
            if _is_verified(reply, packet, authenticator, secret) and reply[0] in EXPECTED_CODES[code]:
                return reply
    return None


def _encode_attribute(number: int, value: bytes) -> bytes:
    return bytes((number, len(value) + 2)) + value


def _make_request(code: int, attributes: bytes, secret: bytes) -> tuple[bytes, bytes]:
    authenticator = os.urandom(16)
    length = 20 + 18 + len(attributes)
    header = struct.pack("!BBH", code, os.urandom(1)[0], length) + authenticator
    signature = hmac.digest(secret, header + _encode_attribute(80, bytes(16)) + attributes, "md5")
    return header + _encode_attribute(80, signature) + attributes, authenticator


def _is_verified(reply: bytes, packet: bytes, authenticator: bytes, secret: bytes) -> bool:
    """Verify the Response Authenticator, which covers the request's (RFC 2865 3)."""
    if len(reply) < 20 or reply[1] != packet[1]:
        return False
    expected = hashlib.md5(reply[:4] + authenticator + reply[20:] + secret, usedforsecurity=False).digest()
    return hmac.compare_digest(expected, reply[4:20])
