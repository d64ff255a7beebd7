"""Extent of a pool: all addresses (or IPv6 prefixes of one length) in its ranges, without its exclusions."""

import ipaddress
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from nac.kit.errors import InvalidInput, MistakeCollector

PoolKind = Literal["ipv4", "ipv6", "delegated"]
# RADIUS attribute that carries the address (RFC 2865 5.8, RFC 3162 2.3, RFC 4818 3).
ATTRIBUTE_BY_KIND: dict[str, str] = {
    "ipv4": "Framed-IP-Address",
    "ipv6": "Framed-IPv6-Prefix",
    "delegated": "Delegated-IPv6-Prefix",
}
# Maximum number of addresses in a pool. Each address has a row in the database.
MAX_ADDRESSES = 65_536
MAX_RANGES = 256
_BITS = {4: 32, 6: 128}
# Addresses that no device can have. IPv4: this host, loopback, multicast and reserved (RFC 6890), and 255.255.255.254
# and .255 (RFC 2865 5.8). IPv6: unspecified, mapped, link-local and multicast.
_UNUSABLE = tuple(
    map(
        ipaddress.ip_network,
        (
            "0.0.0.0/8",
            "127.0.0.0/8",
            "169.254.0.0/16",
            "224.0.0.0/3",
            "::/96",
            "::ffff:0:0/96",
            "fe80::/10",
            "ff00::/8",
        ),
    )
)

# First and last address of a range, as integers.
Interval = tuple[int, int]


@dataclass(frozen=True, slots=True)
class PoolExtent:
    version: int
    # Length of the prefix that a device gets; 32 for IPv4, because a device gets a single address.
    prefix_length: int
    # Ordered ranges that do not overlap. In an IPv6 range, the last number is the last address of the last prefix.
    intervals: tuple[Interval, ...]

    @property
    def _step(self) -> int:
        return 1 << (_BITS[self.version] - self.prefix_length)

    def __len__(self) -> int:
        return sum(last + 1 - first for first, last in self.intervals) // self._step

    def addresses(self) -> Iterator[str]:
        """Yield the addresses in PostgreSQL's notation, such as 10.0.0.1 and 2001:db8:0:100::/56."""
        return (self._text(number) for first, last in self.intervals for number in range(first, last + 1, self._step))

    def bounds(self) -> list[tuple[str, str]]:
        """Return the first and last address or prefix of each interval, in PostgreSQL's notation."""
        return [(self._text(first), self._text(last + 1 - self._step)) for first, last in self.intervals]

    def whole_bounds(self) -> list[tuple[str, str]]:
        """Return the first and last single address (not prefix) of each interval.

        With single addresses, you can compare pools of different prefix lengths.
        """
        make = ipaddress.IPv4Address if self.version == 4 else ipaddress.IPv6Address
        return [(str(make(first)), str(make(last))) for first, last in self.intervals]

    def _text(self, number: int) -> str:
        if self.version == 4:
            return str(ipaddress.IPv4Address(number))
        return str(ipaddress.IPv6Network((number, self.prefix_length)))

    def first_shared(self, other: "PoolExtent") -> str:
        """Return the first address that this extent and `other` have in common, or ""."""
        if self.version != other.version:
            return ""
        starts = (
            max(mine[0], theirs[0])
            for mine in self.intervals
            for theirs in other.intervals
            if max(mine[0], theirs[0]) <= min(mine[1], theirs[1])
        )
        first = min(starts, default=None)
        return "" if first is None else str(ipaddress.ip_address(first if self.version == 4 else first.to_bytes(16)))


def parse_extent(
    kind: PoolKind, ranges: Sequence[str], exclusions: Sequence[str], prefix_length: int | None
) -> PoolExtent:
    """Parse ranges and exclusions. Raises InvalidInput or SeveralMistakes.

    A range is a network, an address, or two addresses with a dash between them. An IPv4 network with a prefix length of
    up to 30 excludes its network address and its broadcast address. `prefix_length` is only for IPv6.
    """
    version = 4 if kind == "ipv4" else 6
    length = _require_length(kind, prefix_length)
    mistakes = MistakeCollector()
    found: list[Interval] = []
    if not ranges or len(ranges) + len(exclusions) > MAX_RANGES:
        raise InvalidInput(
            f"Invalid number of ranges: {len(ranges)}.",
            place="ranges",
            remedy=f"Use 1 to {MAX_RANGES} ranges. Exclusions count as ranges.",
        )
    for text in ranges:
        with mistakes.noted():
            interval = _parse_range(text, version, length, "ranges", hosts=True)
            _require_usable(text, interval, version)
            if clash := next((each for each in found if interval[0] <= each[1] and each[0] <= interval[1]), None):
                raise InvalidInput(
                    f"{text} overlaps {_format_interval(clash, version)}.",
                    place="ranges",
                    remedy="Remove the overlap of the ranges.",
                )
            found.append(interval)
    left = sorted(found)
    for text in exclusions:
        with mistakes.noted():
            hole = _parse_range(text, version, length, "exclusions", hosts=False)
            if not any(
                first <= hole[0] and hole[1] <= last for first, last in _add_network_ends(found, version, ranges)
            ):
                raise InvalidInput(
                    f"{text} is outside of the ranges.", place="exclusions", remedy="Remove the exclusion."
                )
            left = [piece for each in left for piece in _subtract(each, hole)]
    mistakes.refuse()
    extent = PoolExtent(version, length, tuple(left))
    if not len(extent):
        raise InvalidInput("The exclusions leave no address.", place="exclusions")
    if len(extent) > MAX_ADDRESSES:
        raise InvalidInput(
            f"The pool would have {len(extent):,} addresses; the maximum is {MAX_ADDRESSES:,}.",
            place="ranges",
            remedy=f"Create several pools with up to {MAX_ADDRESSES:,} addresses each.",
        )
    return extent


def parse_address(text: str, *, place: str = "address") -> str:
    """Parse an address or prefix, and return it in PostgreSQL's notation. Raises InvalidInput."""
    try:
        return str(ipaddress.ip_network(text) if "/" in text else ipaddress.ip_address(text))
    except ValueError as exc:
        raise InvalidInput(f"Invalid address or prefix {text[:100]!r}.", place=place) from exc


def _require_length(kind: PoolKind, length: int | None) -> int:
    if kind == "ipv4":
        if length not in (None, 32):
            raise InvalidInput(
                "An IPv4 pool has single addresses.", place="prefix_length", remedy="Remove prefix_length."
            )
        return 32
    # The default is 64, because hosts need a /64 for autoconfiguration (RFC 4862). RFC 3162 2.3 and RFC 4818 3 allow up
    # to 128.
    if length is None:
        length = 64 if kind == "ipv6" else 56
    if not 16 <= length <= 64:
        raise InvalidInput(
            f"Invalid prefix length /{length}.", place="prefix_length", remedy="Use a prefix length from 16 to 64."
        )
    return length


def _parse_range(text: str, version: int, length: int, place: str, *, hosts: bool) -> Interval:
    try:
        if "-" in text:
            return _parse_span(text, version, length, place)
        network = ipaddress.ip_network(text.strip())
    except ValueError as exc:
        raise InvalidInput(
            f"Invalid range {text[:100]!r}: {exc}.",
            place=place,
            remedy="Use a range such as 10.1.0.0/24 or 10.1.0.10-10.1.0.99."
            if version == 4
            else "Use a range such as 2001:db8::/40.",
        ) from exc
    if network.version != version:
        raise InvalidInput(f"{text} is an IPv{network.version} range, but the pool is for IPv{version}.", place=place)
    if version == 6 and network.prefixlen > length:
        raise InvalidInput(f"{text} is smaller than the /{length} of each device.", place=place)
    first, last = int(network.network_address), int(network.broadcast_address)
    if version == 4 and hosts and network.prefixlen <= 30:
        return first + 1, last - 1
    return first, last


def _parse_span(text: str, version: int, length: int, place: str) -> Interval:
    if version == 6:
        raise ValueError("IPv6 ranges must be networks")
    first, last = (ipaddress.IPv4Address(part.strip()) for part in text.split("-", 1))
    if first > last:
        raise ValueError("the first address is after the last")
    for end in (first, last):
        if place == "ranges" and end.packed[-1] in (0, 255):
            raise InvalidInput(
                f"{end} is a network or broadcast address.",
                place=place,
                remedy="Exclude the address, or use a network such as 10.1.0.0/22, which excludes network and"
                " broadcast addresses.",
            )
    return int(first), int(last)


def _require_usable(text: str, interval: Interval, version: int) -> None:
    for network in _UNUSABLE:
        if (
            network.version == version
            and interval[0] <= int(network.broadcast_address)
            and int(network.network_address) <= interval[1]
        ):
            raise InvalidInput(f"{text}: devices cannot have addresses of {network}.", place="ranges")


def _add_network_ends(found: Iterable[Interval], version: int, ranges: Sequence[str]) -> Iterator[Interval]:
    """Yield the intervals in `found`. Also yield each IPv4 network in `ranges` with its network and broadcast address.

    An exclusion may contain these two addresses, although devices do not get them.
    """
    yield from found
    for text in ranges:
        if version == 4 and "/" in text:
            try:
                network = ipaddress.ip_network(text.strip())
            except ValueError:
                continue
            yield int(network.network_address), int(network.broadcast_address)


def _subtract(interval: Interval, hole: Interval) -> Iterator[Interval]:
    first, last = interval
    if hole[1] < first or last < hole[0]:
        yield interval
        return
    if first < hole[0]:
        yield first, hole[0] - 1
    if hole[1] < last:
        yield hole[1] + 1, last


def _format_interval(interval: Interval, version: int) -> str:
    make = ipaddress.IPv4Address if version == 4 else ipaddress.IPv6Address
    return f"{make(interval[0])}-{make(interval[1])}"
