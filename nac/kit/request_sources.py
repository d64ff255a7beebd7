"""Source addresses for rate limits."""

import ipaddress
from functools import lru_cache

# A household or company has at least a network of this size (RFC 6177). So all addresses of a network count as one
# source.
_IPV6_PREFIX = 64
# Source address from which the demo tests that Admit rejects requests. No packet from another machine can have a
# loopback address (RFC 1122 3.2.1.3). A local proxy uses 127.0.0.1.
DEMO_ADDRESS = ipaddress.IPv4Address("127.83.84.1")


@lru_cache(maxsize=4096)
def get_source(address: str) -> str:
    """Return the source for a client's address: an IPv4 address, or the network of an IPv6 address.

    Returns text that is not an IP address unchanged.
    """
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(found, ipaddress.IPv4Address):
        return str(found)
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return str(ipaddress.ip_network((found, _IPV6_PREFIX), strict=False))


class NetworkSet:
    """Set of addresses and networks. The constructor parses comma-separated text, or "". Raises ValueError."""

    def __init__(self, text: str) -> None:
        self._networks = tuple(ipaddress.ip_network(part.strip()) for part in text.split(",") if part)

    def __contains__(self, address: str) -> bool:
        """Return whether a network contains the address.

        Accepts IPv4-mapped IPv6. Returns False for invalid addresses.
        """
        try:
            found = ipaddress.ip_address(address.partition("%")[0])
        except ValueError:
            return False
        found = getattr(found, "ipv4_mapped", None) or found
        return any(found in network for network in self._networks)
