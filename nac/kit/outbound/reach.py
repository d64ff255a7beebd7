"""Permitted addresses for outbound connections to servers of tenants, and DNS lookups of these servers.

A tenant's administrator configures hosts, such as identity sources, webhooks and CRL servers. Connections to these
hosts start in the platform's network. Admit must therefore refuse addresses of internal services.

If no DNS server answers, the system's lookup takes half a minute or longer, and the caller cannot cancel it. Each
lookup therefore has its own thread, so that other lookups need not wait. The number of threads is limited, with a much
lower limit for each tenant. Concurrent lookups of the same name and port for a tenant share one thread.
"""

import asyncio
import ipaddress
import socket
import threading
from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, NamedTuple

from nac.kit.advice import add_advice

_MAX_LOOKUPS = 128
_MAX_LOOKUPS_PER_OWNER = 4
_POLL_SECONDS = 0.05

# Result of socket.getaddrinfo.
AddressInfos = list[tuple[Any, ...]]


class _LookupKey(NamedTuple):
    owner: str
    host: str
    port: int


class NameResolver:
    def __init__(self, *, most: int = _MAX_LOOKUPS, most_of_one: int = _MAX_LOOKUPS_PER_OWNER) -> None:
        self._most = most
        self._most_of_one = most_of_one
        self._lock = threading.Lock()
        self._running: dict[_LookupKey, Future[AddressInfos]] = {}

    async def look_up(self, host: str, port: int, *, owner: str = "") -> AddressInfos:
        """Return the TCP addresses of a host. `owner` is the id of the tenant that configured the host.

        If `owner` is "", the limit for each tenant does not apply. Waits for a free thread and for the system's lookup.
        The caller must limit the time. Raises OSError.
        """
        try:
            return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
        except (socket.gaierror, UnicodeError):
            lookup_key = _LookupKey(owner, host, port)
        while (lookup := self._begin(lookup_key)) is None:
            await asyncio.sleep(_POLL_SECONDS)
        return await asyncio.wrap_future(lookup)

    def _begin(self, key: _LookupKey) -> Future[AddressInfos] | None:
        """Return the running lookup for `key`, or start a lookup. Returns None if no thread is free."""
        with self._lock:
            if key in self._running:
                return self._running[key]
            of_one = sum(other.owner == key.owner for other in self._running)
            if len(self._running) >= self._most or (key.owner and of_one >= self._most_of_one):
                return None
            lookup: Future[AddressInfos] = Future()
            # If one caller stops waiting, the lookup continues for the other callers.
            lookup.set_running_or_notify_cancel()
            self._running[key] = lookup
        threading.Thread(target=self._run, args=(key, lookup), name="lookup", daemon=True).start()
        return lookup

    def _run(self, key: _LookupKey, lookup: Future[AddressInfos]) -> None:
        try:
            found = socket.getaddrinfo(key.host, key.port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as exc:
            self._end(key)
            lookup.set_exception(exc if isinstance(exc, OSError) else OSError(str(exc)))
        else:
            self._end(key)
            lookup.set_result(found)

    def _end(self, key: _LookupKey) -> None:
        with self._lock:
            del self._running[key]


RESOLVER = NameResolver()


Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Address = ipaddress.IPv4Address | ipaddress.IPv6Address

PLATFORM_REMEDY = (
    "The platform's operator can allow this connection with ADMIT_OUTBOUND_NETWORKS"
    " (docs/reference/outbound-connections.md)."
)
# The last 32 bits of an address in this network are an IPv4 address (RFC 6052 2.1).
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
# Networks that contain no servers of tenants. If an IPv6 address contains an IPv4 address, Admit checks the IPv4
# address.
_FORBIDDEN_TEXTS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("a loopback address", ("127.0.0.0/8", "::1")),
    ("a link-local address", ("169.254.0.0/16", "fe80::/10")),
    # Metadata addresses outside the link-local networks: Alibaba, Oracle, Azure, AWS, Google.
    (
        "a cloud's metadata address",
        ("100.100.100.200", "192.0.0.192", "168.63.129.16", "fd00:ec2::/32", "fd20:ce::/32"),
    ),
    ("a multicast address", ("224.0.0.0/4", "ff00::/8")),
    # In this order: "this network", reserved, IPv4-compatible, IPv4-translated, local NAT64, Teredo, 6to4, site-local.
    (
        "not a server's address",
        (
            "0.0.0.0/8",
            "240.0.0.0/4",
            "::/96",
            "::ffff:0:0:0/96",
            "64:ff9b:1::/48",
            "2001::/32",
            "2002::/16",
            "fec0::/10",
        ),
    ),
)
_FORBIDDEN_NETWORKS = [(what, ipaddress.ip_network(text)) for what, texts in _FORBIDDEN_TEXTS for text in texts]


class AddressRefused(Exception):
    """All addresses of the host are refused. The message has all addresses, the reasons and the remedy."""


class Destination(NamedTuple):
    family: int
    # Argument for connect().
    address: tuple[Any, ...]


class AddressRefusal(NamedTuple):
    """Reason and remedy, if all addresses of a host are refused."""

    why: str
    remedy: str


@dataclass(frozen=True)
class OutboundReach:
    """Networks to which Admit may connect.

    Addresses in `refused` are never permitted. Addresses in `allowed` are permitted unless they are in `refused`. Other
    addresses must be public or private unicast addresses, and must not belong to this machine. If `only` is set, a
    permitted address must also be in a network of `only`.
    """

    allowed: tuple[Network, ...] = ()
    refused: tuple[Network, ...] = ()
    # Networks to which the tenant restricts connections, and the remedy for other addresses. `str` omits both.
    only: tuple[Network, ...] = ()
    only_remedy: str = ""
    # Id of the tenant that configured the hosts. The concurrent lookups of one tenant are limited.
    owner: str = ""

    @classmethod
    def parse(cls, text: str) -> "OutboundReach":
        """Parse text such as "10.1.0.0/16 !10.1.9.0/24". A `!` before a network refuses it. Raises ValueError."""
        words = text.split()
        return cls(
            tuple(ipaddress.ip_network(word) for word in words if not word.startswith("!")),
            tuple(ipaddress.ip_network(word[1:]) for word in words if word.startswith("!")),
        )

    def __str__(self) -> str:
        return " ".join((*map(str, self.allowed), *(f"!{network}" for network in self.refused)))

    def within(self, networks: Iterable[str], *, remedy: str, owner: str = "") -> "OutboundReach":
        """Return a copy that is restricted to `networks`. Empty `networks` add no restriction.

        Raises ValueError for an invalid network.
        """
        return replace(self, only=tuple(map(ipaddress.ip_network, networks)), only_remedy=remedy, owner=owner)

    def why_not(self, text: str) -> str:
        """Return the reason why the address is refused, or "". Raises ValueError for an invalid address."""
        address = _embedded_ipv4(ipaddress.ip_address(text))
        if what := self._what(address):
            return f"{text} is {what}; Admit does not connect to this address"
        if self.only and not _is_in(address, self.only):
            return f"{text} is outside of the configured networks"
        return ""

    def _remedy(self, text: str) -> str:
        """Return the remedy for an address that the platform or the tenant refuses."""
        return PLATFORM_REMEDY if self._what(_embedded_ipv4(ipaddress.ip_address(text))) else self.only_remedy

    def _what(self, address: Address) -> str:
        if _is_in(address, self.refused):
            return "refused by the platform"
        if _is_in(address, self.allowed):
            return ""
        usual = next((what for what, network in _FORBIDDEN_NETWORKS if address in network), "")
        return usual or ("this machine's own address" if is_own_address(address) else "")

    def refusal(self, texts: Sequence[str]) -> AddressRefusal | None:
        """Return the refusal of a host with these addresses. Returns None if one of the addresses is permitted."""
        whys = [why for text in texts if (why := self.why_not(text))]
        if len(whys) < len(texts):
            return None
        # The platform's remedy comes first: the tenant's remedy can be an Advice, which must end with its next steps.
        remedies = sorted(set(map(self._remedy, texts)), key=lambda remedy: remedy != PLATFORM_REMEDY)
        return AddressRefusal("; ".join(whys), reduce(add_advice, remedies))

    def find_literal_refusal(self, host: str) -> AddressRefusal | None:
        """Return the refusal of a host that is an address in any notation. Returns None for a name.

        For a host name, the method `places` checks the addresses when Admit connects.
        """
        try:
            # Remove a trailing dot, which is valid after a name. Otherwise getaddrinfo would not recognise an address.
            found = socket.getaddrinfo(
                host.removesuffix("."), None, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST
            )
        except (OSError, UnicodeError):
            return None
        return self.refusal([str(address[0]) for *_, address in found])

    async def places(self, host: str, port: int) -> list[Destination]:
        """Resolve a host and return its permitted addresses.

        Connect to the returned addresses: a second lookup could give other addresses. Raises AddressRefused if all
        addresses are refused. Raises OSError if the host has no address.
        """
        found = await RESOLVER.look_up(host, port, owner=self.owner)
        refusal = self.refusal([str(address[0]) for *_, address in found])
        if refusal is not None:
            raise AddressRefused(f"{host}: {refusal.why}. {refusal.remedy}")
        return [Destination(family, address) for family, *_, address in found if not self.why_not(str(address[0]))]


DEFAULT_REACH = OutboundReach()


def _embedded_ipv4(address: Address) -> Address:
    """Return the IPv4 address that an IPv6 address contains. Returns other addresses unchanged."""
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            return address.ipv4_mapped
        if address in _NAT64:
            return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address


def is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _is_in(address: Address, networks: Iterable[Network]) -> bool:
    return any(address in network for network in networks)


def is_own_address(address: Address) -> bool:
    """Return whether the address belongs to this machine, whose services may trust local callers. Sends no packet."""
    with socket.socket(socket.AF_INET if address.version == 4 else socket.AF_INET6, socket.SOCK_DGRAM) as trial:
        try:
            trial.connect((str(address), 9))
        except OSError:
            return False
        return ipaddress.ip_address(trial.getsockname()[0]) == address
