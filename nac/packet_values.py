"""What rules may ask about a packet alone: `radius.<Name>` for each attribute, and what follows from some of them.

The module reads only what a policy asks for, on the path of every packet; the agent reads all for the log of decisions.
Both go through this one table, so replay sees what the decision saw.
"""

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Protocol

from nac.mac import called_station_ssid, is_random_mac

Pairs = tuple[tuple[str, str], ...]
Values = tuple[str | int | bool, ...]

# Credentials by name, vendors' own included: neither rules nor any log see them. EAP-Key-Name only names a key. The raw
# names are those of User-Password, CHAP-Password and of Microsoft's attributes that do not decode.
_CREDENTIAL = re.compile(
    r"passw|passphrase|secret|psk|pmk|msk|token|eapol|md5-?key|-pass$|mmgpass|-rk$|key(-\d+)?$|keys$|(^|-)otp(-|$)"
    # Interception by order of a court, which vendors hide on the wire as they do secrets.
    r"|-li-|-med-(dev|ip|port)|patron"
    r"|^chap-|^ms-chap|^arap-|^digest-response$|^attr-(2|3|26\.311)(\.|$)",
    re.IGNORECASE,
)
# What belongs to transport or to radiusd itself: of no use to rules and to the log of decisions.
_PRIVATE = frozenset(
    (
        "EAP-Message",
        "Message-Authenticator",
        "State",
        "Proxy-State",
        "Module-Failure-Message",
        "EAP-Type",
        "EAP-Session-Resumed",
    )
)
_OWN_PREFIXES = ("Admit-", "TLS-", "Tmp-")
_PREFIX = "radius."
# Names that were looked at, of which an attacker may make up any number.
_MAX_NAMES = 5_000


class Packet(Protocol):
    """`pairs` in order, and what was read out of them: "" where the packet does not say."""

    @property
    def pairs(self) -> Pairs: ...
    @property
    def mac(self) -> str: ...
    @property
    def nas_identifier(self) -> str: ...
    @property
    def nas_address(self) -> str: ...


@lru_cache(maxsize=_MAX_NAMES)
def is_recordable(name: str) -> bool:
    """Whether the attribute may be kept: it is the packet's, not ours, and no credential."""
    return not name.startswith("Admit-") and _CREDENTIAL.search(name) is None


@lru_cache(maxsize=_MAX_NAMES)
def is_visible(name: str) -> bool:
    """Whether rules and the log of decisions see the attribute."""
    return is_recordable(name) and name not in _PRIVATE and not name.startswith(_OWN_PREFIXES)


def visible_pairs(pairs: Pairs) -> Pairs:
    """What rules and the log of decisions see."""
    return tuple([pair for pair in pairs if is_visible(pair[0])])


def get_values(pairs: Pairs, name: str) -> tuple[str, ...]:
    """Of an attribute that may come several times, in order."""
    return tuple([value for found, value in pairs if found == name])


def _ssid(packet: Packet) -> str:
    called = get_values(packet.pairs, "Called-Station-Id")
    return called_station_ssid(called[0]) if called else ""


_DERIVED: Mapping[str, Callable[[Packet], Values]] = {
    "mac": lambda packet: (packet.mac,),
    "mac.random": lambda packet: (is_random_mac(packet.mac),) if packet.mac else (),
    "ssid": lambda packet: (_ssid(packet),),
    "nas.identifier": lambda packet: (packet.nas_identifier,),
    "nas.address": lambda packet: (packet.nas_address,),
    "nas.port_type": lambda packet: get_values(packet.pairs, "NAS-Port-Type"),
}


def is_packet_attribute(name: str) -> bool:
    """Whether the engine's attribute `name` is answered here."""
    return name in _DERIVED or name.startswith(_PREFIX)


def packet_attribute_name(name: str) -> str:
    """Of the packet, by the engine's attribute `name`; "" where that is no attribute as it came."""
    return name.removeprefix(_PREFIX) if name.startswith(_PREFIX) else ""


def packet_value(packet: Packet, name: str) -> Values:
    """The engine's attribute `name`; () where the packet has none, or where rules must not see it."""
    derived = _DERIVED.get(name)
    if derived is not None:
        found = derived(packet)
        return () if found == ("",) else found
    attribute = name.removeprefix(_PREFIX)
    return get_values(packet.pairs, attribute) if is_visible(attribute) else ()


def packet_values(packet: Packet) -> dict[str, Values]:
    """All of them that the packet has."""
    values: dict[str, Values] = {}
    for name, value in packet.pairs:
        if is_visible(name):
            key = _PREFIX + name
            values[key] = (*values[key], value) if key in values else (value,)
    for name in _DERIVED:
        found = packet_value(packet, name)
        if found:
            values[name] = found
    return values
