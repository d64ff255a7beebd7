"""Permitted addresses of outbound connections for a tenant.

A tenant's administrator configures hosts (identity sources, webhooks, CRL servers). Connections come from inside the
platform's network, so some addresses must be refused.
"""

import ipaddress
import socket
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, NamedTuple

from nac.kit.advice import add_advice
from nac.kit.outbound.resolver import RESOLVER

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Address = ipaddress.IPv4Address | ipaddress.IPv6Address

PLATFORM_REMEDY = (
    "The platform's operator can allow it with ADMIT_OUTBOUND_NETWORKS (docs/reference/outbound-connections.md)."
)
# RFC 6052 2.1: the last 32 bits are an IPv4 address.
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
# Networks without customers' servers. IPv4 addresses within IPv6 addresses are checked themselves.
_FORBIDDEN_TEXTS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("a loopback address", ("127.0.0.0/8", "::1")),
    ("a link-local address", ("169.254.0.0/16", "fe80::/10")),
    # Those that are not link-local: Alibaba, Oracle, Azure; AWS, Google.
    (
        "a cloud's metadata address",
        ("100.100.100.200", "192.0.0.192", "168.63.129.16", "fd00:ec2::/32", "fd20:ce::/32"),
    ),
    ("a multicast address", ("224.0.0.0/4", "ff00::/8")),
    # "This network", reserved, IPv4-compatible, IPv4-translated, local NAT64, Teredo, 6to4, site-local.
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
    """All addresses of the host are refused. The message has each address, the reason and the remedy."""


class Destination(NamedTuple):
    family: int
    # Argument of connect().
    address: tuple[Any, ...]


class AddressRefusal(NamedTuple):
    """Refusal of all addresses of a host."""

    why: str
    remedy: str


@dataclass(frozen=True)
class OutboundReach:
    """The permitted addresses.

    `refused` ones are never permitted, `allowed` ones always. Others must be public or private unicast, and not this
    machine's own. `only` restricts permitted addresses further, if set.
    """

    allowed: tuple[Network, ...] = ()
    refused: tuple[Network, ...] = ()
    # A tenant's restriction, and its remedy; not part of the text form.
    only: tuple[Network, ...] = ()
    only_remedy: str = ""
    # Owner of the hosts, which limits its concurrent lookups.
    owner: str = ""

    @classmethod
    def parse(cls, text: str) -> "OutboundReach":
        """Parse "10.1.0.0/16 !10.1.9.0/24", where ! refuses a network. Raises ValueError."""
        words = text.split()
        return cls(
            tuple(ipaddress.ip_network(word) for word in words if not word.startswith("!")),
            tuple(ipaddress.ip_network(word[1:]) for word in words if word.startswith("!")),
        )

    def __str__(self) -> str:
        return " ".join((*map(str, self.allowed), *(f"!{network}" for network in self.refused)))

    def within(self, networks: Iterable[str], *, remedy: str, owner: str = "") -> "OutboundReach":
        """Return the same, restricted to these networks if there are any. Raises ValueError for an invalid network."""
        return replace(self, only=tuple(map(ipaddress.ip_network, networks)), only_remedy=remedy, owner=owner)

    def why_not(self, text: str) -> str:
        """Return why the address is refused, or "". Raises ValueError for an invalid address."""
        address = _embedded_ipv4(ipaddress.ip_address(text))
        if what := self._what(address):
            return f"{text} is {what}; Admit does not connect to it"
        if self.only and not _is_in(address, self.only):
            return f"{text} is outside of the configured networks"
        return ""

    def _remedy(self, text: str) -> str:
        """Return the remedy for a refused address, by the platform or the tenant."""
        return PLATFORM_REMEDY if self._what(_embedded_ipv4(ipaddress.ip_address(text))) else self.only_remedy

    def _what(self, address: Address) -> str:
        if _is_in(address, self.refused):
            return "refused by the platform"
        if _is_in(address, self.allowed):
            return ""
        usual = next((what for what, network in _FORBIDDEN_NETWORKS if address in network), "")
        return usual or ("this machine's own address" if is_own_address(address) else "")

    def refusal(self, texts: Sequence[str]) -> AddressRefusal | None:
        """Return the refusal of a host with these addresses; None if one of them is permitted."""
        whys = [why for text in texts if (why := self.why_not(text))]
        if len(whys) < len(texts):
            return None
        # The platform's first, because the tenant's can be an Advice, which ends with its next steps.
        remedies = sorted(set(map(self._remedy, texts)), key=lambda remedy: remedy != PLATFORM_REMEDY)
        return AddressRefusal("; ".join(whys), reduce(add_advice, remedies))

    def find_literal_refusal(self, host: str) -> AddressRefusal | None:
        """Return the refusal of a host written as an address in any form; None for a name, which is checked when
        connecting.
        """
        try:
            # A trailing dot is allowed after names; without it, an address is recognized.
            found = socket.getaddrinfo(
                host.removesuffix("."), None, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST
            )
        except (OSError, UnicodeError):
            return None
        return self.refusal([str(address[0]) for *_, address in found])

    async def places(self, host: str, port: int) -> list[Destination]:
        """Resolve and return permitted addresses. Do not resolve again: the result could differ.

        Raises AddressRefused if all addresses are refused, and OSError if there are none.
        """
        found = await RESOLVER.look_up(host, port, owner=self.owner)
        refusal = self.refusal([str(address[0]) for *_, address in found])
        if refusal is not None:
            raise AddressRefused(f"{host}: {refusal.why}. {refusal.remedy}")
        return [Destination(family, address) for family, *_, address in found if not self.why_not(str(address[0]))]


DEFAULT_REACH = OutboundReach()


def _embedded_ipv4(address: Address) -> Address:
    """Return the IPv4 address within an IPv6 address."""
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
    """Return whether the address belongs to this machine, where local services may trust the caller. Sends nothing."""
    with socket.socket(socket.AF_INET if address.version == 4 else socket.AF_INET6, socket.SOCK_DGRAM) as trial:
        try:
            trial.connect((str(address), 9))
        except OSError:
            return False
        return ipaddress.ip_address(trial.getsockname()[0]) == address
