"""Who counts as one where requests are limited by the address that they come from."""

import ipaddress
from functools import lru_cache

# A household or company has at least this much of IPv6 (RFC 6177): addresses within it are one source.
_IPV6_PREFIX = 64


@lru_cache(maxsize=4096)
def source_of(address: str) -> str:
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
