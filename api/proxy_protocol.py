"""The PROXY protocol, versions 1 and 2: what a balancer that passes TCP on writes before what the client sends.

HAProxy's specification of 2020-03-05 ("The PROXY protocol", sections 2.1 and 2.2). Only the client's address is read.
"""

import ipaddress
import struct
from collections.abc import Awaitable, Callable

# Reads at most so many bytes; none at the end.
Receive = Callable[[int], Awaitable[bytes]]

_SIGNATURE = b"\r\n\r\n\x00\r\nQUIT\n"
_MAX_LINE_OCTETS = 107
# Beyond the addresses come fields that nobody here reads.
_MAX_BODY_OCTETS = 4096
_LOCAL, _PROXY = 0x20, 0x21
_FAMILIES = {1: (4, ipaddress.IPv4Address), 2: (16, ipaddress.IPv6Address)}
_LINE_FAMILIES = {"TCP4": 4, "TCP6": 6}


class ProxyHeaderDamaged(ValueError):
    """This is no header of the PROXY protocol."""


async def read_client(receive: Receive) -> tuple[str, int] | None:
    """The client's address and port; None where the balancer speaks for itself (a health check).

    Not one byte behind the header is taken. Raises ProxyHeaderDamaged.
    """
    begun = await _read_exactly(receive, len(_SIGNATURE))
    if begun == _SIGNATURE:
        head = await _read_exactly(receive, 4)
        return parse_binary(head, await _read_exactly(receive, _parse_length(head)))
    if not begun.startswith(b"PROXY "):
        raise ProxyHeaderDamaged("It does not begin as one.")
    while not begun.endswith(b"\r\n"):
        if len(begun) >= _MAX_LINE_OCTETS:
            raise ProxyHeaderDamaged("The line does not end.")
        begun += await _read_exactly(receive, 1)
    return parse_line(begun)


async def _read_exactly(receive: Receive, octets: int) -> bytes:
    found = b""
    while len(found) < octets:
        part = await receive(octets - len(found))
        if not part:
            raise ProxyHeaderDamaged("It ends too soon.")
        found += part
    return found


def _parse_length(head: bytes) -> int:
    (length,) = struct.unpack("!H", head[2:])
    if length > _MAX_BODY_OCTETS:
        raise ProxyHeaderDamaged(f"More than {_MAX_BODY_OCTETS} bytes.")
    return int(length)


def parse_binary(head: bytes, body: bytes) -> tuple[str, int] | None:
    """Version 2: the four bytes behind the signature, and as many as they announce. Raises ProxyHeaderDamaged."""
    command, family = head[0], head[1] >> 4
    if command == _LOCAL:
        return None
    if command != _PROXY:
        raise ProxyHeaderDamaged(f"Version and command are {command:#x}.")
    if family not in _FAMILIES:
        return None
    octets, make = _FAMILIES[family]
    if len(body) < 2 * octets + 4:
        raise ProxyHeaderDamaged("The addresses are cut short.")
    (port,) = struct.unpack_from("!H", body, 2 * octets)
    return str(make(body[:octets])), int(port)


def parse_line(line: bytes) -> tuple[str, int] | None:
    """Version 1, with its end of line. Raises ProxyHeaderDamaged."""
    try:
        _, family, *rest = line.removesuffix(b"\r\n").decode("ascii").split(" ")
        if family == "UNKNOWN":
            return None
        source, destination, port, _ = rest
        addresses = ipaddress.ip_address(source), ipaddress.ip_address(destination)
        if {address.version for address in addresses} != {_LINE_FAMILIES[family]} or not 0 <= int(port) <= 0xFFFF:
            raise ProxyHeaderDamaged("The addresses are not of the family.")
    except (ValueError, KeyError) as exc:
        raise ProxyHeaderDamaged("The line cannot be read.") from exc
    return str(addresses[0]), int(port)
