"""Where the platform connects to for a tenant. Its administrator names a host (an identity source, a webhook, who
publishes a CRL); the connection comes from inside the platform's own network, so not every address will do.
"""

import ipaddress
import socket
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from nac.outbound.resolver import RESOLVER

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Address = ipaddress.IPv4Address | ipaddress.IPv6Address

PLATFORM_REMEDY = (
    "Whoever runs the platform can allow it with ADMIT_OUTBOUND_NETWORKS (docs/reference/outbound-connections.md)."
)
# RFC 6052 2.1: the last 32 bits are an IPv4 address.
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
# What is not for a server of the customer's; the IPv4 address inside an IPv6 one is looked at as itself.
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
        "no address of a server",
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
    """Nothing is connected to: the message names each address of the host, why it is refused, and the remedy."""


class Destination(NamedTuple):
    family: int
    # As connect() takes it.
    address: tuple[Any, ...]


class AddressRefusal(NamedTuple):
    """Of each address of a host."""

    why: str
    remedy: str


@dataclass(frozen=True)
class OutboundReach:
    """Which addresses may be connected to: never what is `refused`; else what is `allowed`; else public and private
    unicast addresses, other than this machine's own. Of those, where `only` names any, no others."""

    allowed: tuple[Network, ...] = ()
    refused: tuple[Network, ...] = ()
    # A tenant's, and what it can do about them; not part of the text.
    only: tuple[Network, ...] = ()
    only_remedy: str = ""
    # Who names the hosts, so that one that names many which nobody answers for holds up no other.
    owner: str = ""

    @classmethod
    def parse(cls, text: str) -> "OutboundReach":
        """Of "10.1.0.0/16 !10.1.9.0/24", where ! stands before what is refused. Raises ValueError."""
        words = text.split()
        return cls(
            tuple(ipaddress.ip_network(word) for word in words if not word.startswith("!")),
            tuple(ipaddress.ip_network(word[1:]) for word in words if word.startswith("!")),
        )

    def __str__(self) -> str:
        return " ".join((*map(str, self.allowed), *(f"!{network}" for network in self.refused)))

    def within(self, networks: Iterable[str], *, remedy: str, owner: str = "") -> "OutboundReach":
        """The same, in these networks alone; with none, in all. Raises ValueError where one is none."""
        return replace(self, only=tuple(map(ipaddress.ip_network, networks)), only_remedy=remedy, owner=owner)

    def why_not(self, text: str) -> str:
        """ "" for an address that may be connected to. Raises ValueError where it is none."""
        address = _embedded_ipv4(ipaddress.ip_address(text))
        if what := self._what(address):
            return f"{text} is {what}, to which the platform does not connect"
        if self.only and not _is_in(address, self.only):
            return f"{text} is in none of the networks that are set for it"
        return ""

    def _remedy(self, text: str) -> str:
        """For an address that is not connected to: the platform's to say, or else the tenant's."""
        return PLATFORM_REMEDY if self._what(_embedded_ipv4(ipaddress.ip_address(text))) else self.only_remedy

    def _what(self, address: Address) -> str:
        if _is_in(address, self.refused):
            return "refused by the platform"
        if _is_in(address, self.allowed):
            return ""
        usual = next((what for what, network in _FORBIDDEN_NETWORKS if address in network), "")
        return usual or ("this machine's own address" if is_own_address(address) else "")

    def refusal(self, texts: Sequence[str]) -> AddressRefusal | None:
        """Of a host of these addresses; None where one of them may be connected to."""
        whys = [why for text in texts if (why := self.why_not(text))]
        if len(whys) < len(texts):
            return None
        return AddressRefusal("; ".join(whys), " ".join(dict.fromkeys(map(self._remedy, texts))))

    def find_literal_refusal(self, host: str) -> AddressRefusal | None:
        """What `places` would say of a host that is written as an address, in whatever form; None for a name, which is
        looked up when it is connected to."""
        try:
            # A name may end in a dot: an address that does is told here as what it means.
            found = socket.getaddrinfo(
                host.removesuffix("."), None, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST
            )
        except (OSError, UnicodeError):
            return None
        return self.refusal([str(address[0]) for *_, address in found])

    async def places(self, host: str, port: int) -> list[Destination]:
        """Where to connect to. The name is looked up here and not again, or it could mean another address by then.

        Raises AddressRefused where all of its addresses are refused, OSError where it has none.
        """
        found = await RESOLVER.look_up(host, port, owner=self.owner)
        refusal = self.refusal([str(address[0]) for *_, address in found])
        if refusal is not None:
            raise AddressRefused(f"{host}: {refusal.why}. {refusal.remedy}")
        return [Destination(family, address) for family, *_, address in found if not self.why_not(str(address[0]))]


DEFAULT_REACH = OutboundReach()


def _embedded_ipv4(address: Address) -> Address:
    """The IPv4 address that an IPv6 address stands for."""
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
    """What listens on it may take callers from here for its own: whoever sends to it sends from it. Nothing is sent."""
    with socket.socket(socket.AF_INET if address.version == 4 else socket.AF_INET6, socket.SOCK_DGRAM) as trial:
        try:
            trial.connect((str(address), 9))
        except OSError:
            return False
        return ipaddress.ip_address(trial.getsockname()[0]) == address
