"""Policy attributes that depend only on the packet: `radius.<Name>`, and values derived from such attributes.

For each packet, radiusd's module reads only the attributes that a policy uses. For the decision log, the agent reads
all attributes that rules may see. The module and the agent use the functions of this file. Therefore a replay uses the
same values as the original decision.

The file also has the format of the Class attribute that Admit sends in an Access-Accept. The NAS returns the attribute
in Accounting-Requests (RFC 2865 5.25), so that the attribute identifies the decision. The value of Class is
`CLASS_PREFIX` and the time of the decision in epoch microseconds (8 octets, big-endian). Together with the tenant and
the MAC address, the time identifies a row of the decision log. A NAS can also return Class attributes of other servers.
"""

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Protocol

from nac.kit.mac import called_station_ssid, is_random_mac

Pairs = tuple[tuple[str, str], ...]
Values = tuple[str | int | bool, ...]

# Names of attributes that contain credentials. Rules and logs must not see these attributes. EAP-Key-Name is allowed,
# because it only identifies a key. attr-2, attr-3 and attr-26.311 are User-Password, CHAP-Password and Microsoft
# attributes that radiusd cannot decode.
_CREDENTIAL = re.compile(
    r"passw|passphrase|secret|psk|pmk|msk|token|eapol|md5-?key|-pass$|mmgpass|-rk$|key(-\d+)?$|keys$|(^|-)otp(-|$)"
    # Attributes for lawful interception. Vendors encrypt these attributes like secrets.
    r"|-li-|-med-(dev|ip|port)|patron"
    r"|^chap-|^ms-chap|^arap-|^digest-response$|^attr-(2|3|26\.311)(\.|$)",
    re.IGNORECASE,
)
# Attributes of transport or of radiusd, which are useless to rules and the decision log.
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
# Maximum number of names in each cache. An attacker can send any number of names.
_MAX_NAMES = 5_000


class Packet(Protocol):
    """A packet: the attributes (`pairs`) in their order, and values parsed from the attributes ("" if missing)."""

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
    """Return whether Admit may store the attribute: the attribute is not internal to Admit and not a credential."""
    return not name.startswith("Admit-") and _CREDENTIAL.search(name) is None


@lru_cache(maxsize=_MAX_NAMES)
def is_visible(name: str) -> bool:
    """Return whether rules and the decision log may see the attribute."""
    return is_recordable(name) and name not in _PRIVATE and not name.startswith(_OWN_PREFIXES)


def visible_pairs(pairs: Pairs) -> Pairs:
    return tuple([pair for pair in pairs if is_visible(pair[0])])


def get_values(pairs: Pairs, name: str) -> tuple[str, ...]:
    """Return all values of an attribute, in the order of the packet."""
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
    """Return whether this file provides the policy attribute `name`."""
    return name in _DERIVED or name.startswith(_PREFIX)


def packet_attribute_name(name: str) -> str:
    """Return the RADIUS attribute for the policy attribute `name`; "" if the policy attribute is derived."""
    return name.removeprefix(_PREFIX) if name.startswith(_PREFIX) else ""


def packet_value(packet: Packet, name: str) -> Values:
    """Return the values of the policy attribute `name`.

    Returns () if the packet does not have the attribute, or if rules must not see the attribute.
    """
    derived = _DERIVED.get(name)
    if derived is not None:
        found = derived(packet)
        return () if found == ("",) else found
    attribute = name.removeprefix(_PREFIX)
    return get_values(packet.pairs, attribute) if is_visible(attribute) else ()


def packet_values(packet: Packet) -> dict[str, Values]:
    """Return all policy attributes of the packet that rules may see, including derived attributes."""
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


CLASS_PREFIX = "41"
# End of the year 9999. Larger numbers are not valid times.
MAX_MICROSECONDS = 253_402_300_799_999_999
_LENGTH = len("0x") + len(CLASS_PREFIX) + 16


def encode_class(at: int) -> str:
    """Return the Class in radiusd's notation: 0x and hex digits."""
    return f"0x{CLASS_PREFIX}{at:016x}"


def parse_decided_at(value: str) -> int | None:
    """Return the time of the decision in epoch microseconds; None if Admit did not create this value."""
    if len(value) != _LENGTH or not value.startswith(f"0x{CLASS_PREFIX}"):
        return None
    try:
        at = int(value[4:], 16)
    except ValueError:
        return None
    return at if at <= MAX_MICROSECONDS else None
