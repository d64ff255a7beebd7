"""Who counts as one where requests are limited by the address that they come from."""

import ipaddress
from functools import lru_cache

# A household or company has at least this much of IPv6 (RFC 6177): addresses within it are one source.
_IPV6_PREFIX = 64
# From where whoever runs Admit on this machine tries what must not be answered (the demo). No packet of another machine
# comes from it (RFC 1122 3.2.1.3), and a proxy on this one asks from 127.0.0.1.
DEMO_ADDRESS = ipaddress.IPv4Address("127.83.84.1")


@lru_cache(maxsize=4096)
def get_source(address: str) -> str:
    """The address, or the network that counts as one; the text itself where it is no address."""
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
    """Addresses and networks, comma-separated; "" for none. Raises ValueError for what is neither."""

    def __init__(self, text: str) -> None:
        self._networks = tuple(ipaddress.ip_network(part.strip()) for part in text.split(",") if part)

    def __contains__(self, address: str) -> bool:
        """Also of an IPv4 address that is written as an IPv6 one; never of what is no address."""
        try:
            found = ipaddress.ip_address(address.partition("%")[0])
        except ValueError:
            return False
        found = getattr(found, "ipv4_mapped", None) or found
        return any(found in network for network in self._networks)
