"""Matching of addresses in IPv4 and IPv6 networks (RFC 4632, RFC 4291 2.3)."""

import ipaddress
import socket
from collections.abc import Callable, Iterable
from typing import NamedTuple

_MAPPED = b"\0" * 10 + b"\xff\xff"
_BITS = {4: 32, 6: 128}


class IpPrefix(NamedTuple):
    """IP version (4 or 6), prefix length in bits, and the prefix as a number."""

    version: int
    length: int
    prefix: int


def parse_network(text: str) -> IpPrefix:
    """Parse "192.0.2.0/24", "2001:db8::/32" or an address. Raises ValueError with a message for the author of the
    policy."""
    try:
        network = ipaddress.ip_network(text, strict=False)
    except ValueError:
        raise ValueError(f"{text!r} is not a network; write a network as 192.0.2.0/24 or 2001:db8::/32") from None
    if "/" in text and ipaddress.ip_interface(text).ip != network.network_address:
        raise ValueError(f"{text!r} has host bits; the network is {network}")
    length = network.prefixlen
    return IpPrefix(network.version, length, int(network.network_address) >> (_BITS[network.version] - length))


def parse_address(text: str) -> IpPrefix | None:
    """Parse an address or prefix (such as Framed-IPv6-Prefix) of a request; None if the text is neither.

    The result of an IPv4-mapped IPv6 address (RFC 4291 2.5.5.2) is the IPv4 address.
    """
    host, slash, length_text = text.partition("/")
    try:
        packed = socket.inet_pton(socket.AF_INET6 if ":" in host else socket.AF_INET, host)
    except (OSError, ValueError):
        return None
    if len(packed) == 16 and packed.startswith(_MAPPED) and not slash:
        packed = packed[12:]
    bits = 8 * len(packed)
    length = bits
    if slash:
        if not (length_text.isascii() and length_text.isdigit() and len(length_text) <= 3):
            return None
        length = int(length_text)
        if length > bits:
            return None
    return IpPrefix(4 if bits == 32 else 6, length, int.from_bytes(packed, "big") >> (bits - length))


def build_network_cover_test(networks: Iterable[IpPrefix]) -> Callable[[IpPrefix], bool]:
    """Return a function that tests whether a network lies in one of `networks`, with one look-up for each prefix
    length."""
    by_length: dict[tuple[int, int], set[int]] = {}
    for network in networks:
        by_length.setdefault((network.version, network.length), set()).add(network.prefix)
    tables = tuple((version, length, frozenset(found)) for (version, length), found in by_length.items())

    def test(network: IpPrefix) -> bool:
        version, length, prefix = network
        return any(
            version == of_version and length >= of_length and (prefix >> (length - of_length)) in prefixes
            for of_version, of_length, prefixes in tables
        )

    return test


def build_network_test(networks: Iterable[IpPrefix]) -> Callable[[str], bool]:
    """Return a function that tests whether an address, as text, lies in one of `networks`."""
    is_covered = build_network_cover_test(networks)

    def test(text: str) -> bool:
        address = parse_address(text)
        return address is not None and is_covered(address)

    return test
