"""Parses PROXY protocol headers, versions 1 and 2, which TCP load balancers send before the client's data.

HAProxy's document "The PROXY protocol" of 2020-03-05 specifies the headers in sections 2.1 and 2.2. Only the client's
address is used.
"""

import ipaddress
import struct
from collections.abc import Awaitable, Callable

# Reads at most the number of bytes; b"" at the end.
Receive = Callable[[int], Awaitable[bytes]]

_SIGNATURE = b"\r\n\r\n\x00\r\nQUIT\n"
_MAX_LINE_OCTETS = 107
# Additional fields after the addresses are ignored.
_MAX_BODY_OCTETS = 4096
_LOCAL, _PROXY = 0x20, 0x21
_FAMILIES = {1: (4, ipaddress.IPv4Address), 2: (16, ipaddress.IPv6Address)}
_LINE_FAMILIES = {"TCP4": 4, "TCP6": 6}


class ProxyHeaderDamaged(ValueError):
    """Invalid header of the PROXY protocol."""


async def read_client(receive: Receive) -> tuple[str, int] | None:
    """Read the client's address and port.

    Returns None for connections of the load balancer itself (health checks), and for other address families.

    This function reads no byte after the header. Raises ProxyHeaderDamaged.
    """
    begun = await _read_exactly(receive, len(_SIGNATURE))
    if begun == _SIGNATURE:
        head = await _read_exactly(receive, 4)
        return parse_binary(head, await _read_exactly(receive, _parse_length(head)))
    if not begun.startswith(b"PROXY "):
        raise ProxyHeaderDamaged("The header has no valid start.")
    while not begun.endswith(b"\r\n"):
        if len(begun) >= _MAX_LINE_OCTETS:
            raise ProxyHeaderDamaged(f"The header line has no end within {_MAX_LINE_OCTETS} bytes.")
        begun += await _read_exactly(receive, 1)
    return parse_line(begun)


async def _read_exactly(receive: Receive, octets: int) -> bytes:
    found = b""
    while len(found) < octets:
        part = await receive(octets - len(found))
        if not part:
            raise ProxyHeaderDamaged("The header is incomplete.")
        found += part
    return found


def _parse_length(head: bytes) -> int:
    (length,) = struct.unpack("!H", head[2:])
    if length > _MAX_BODY_OCTETS:
        raise ProxyHeaderDamaged(f"The header has more than {_MAX_BODY_OCTETS} bytes.")
    return int(length)


def parse_binary(head: bytes, body: bytes) -> tuple[str, int] | None:
    """Parse a header of version 2 from the four bytes after the signature (`head`) and the body.

    Raises ProxyHeaderDamaged.
    """
    command, family = head[0], head[1] >> 4
    if command == _LOCAL:
        return None
    if command != _PROXY:
        raise ProxyHeaderDamaged(f"The byte for version and command is {command:#x}, which is not supported.")
    if family not in _FAMILIES:
        return None
    octets, make = _FAMILIES[family]
    if len(body) < 2 * octets + 4:
        raise ProxyHeaderDamaged("The header has incomplete addresses.")
    (port,) = struct.unpack_from("!H", body, 2 * octets)
    return str(make(body[:octets])), int(port)


def parse_line(line: bytes) -> tuple[str, int] | None:
    """Parse a header line of version 1, including the end of the line. Raises ProxyHeaderDamaged."""
    try:
        _, family, *rest = line.removesuffix(b"\r\n").decode("ascii").split(" ")
        if family == "UNKNOWN":
            return None
        source, destination, port, _ = rest
        addresses = ipaddress.ip_address(source), ipaddress.ip_address(destination)
        if {address.version for address in addresses} != {_LINE_FAMILIES[family]} or not 0 <= int(port) <= 0xFFFF:
            raise ProxyHeaderDamaged("The header has addresses that do not match the address family.")
    except (ValueError, KeyError) as exc:
        raise ProxyHeaderDamaged("The header line is invalid.") from exc
    return str(addresses[0]), int(port)
