"""Attributes of a simulated request that a cell would derive from its packet."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from nac.cellformat.identity_names import strip_realm
from nac.cellformat.packet_values import Pairs, get_values, packet_values
from nac.engine.attributes import find_attribute
from nac.engine.matchers import Scalar
from nac.kit.mac import normalise_mac, station_mac

_PREFIX = "radius."
_LOGIN_NAME, _STATION = "User-Name", "Calling-Station-Id"


@dataclass(frozen=True, slots=True)
class _SimulatedPacket:
    """The packet of a simulated request, with the interface of `radius.module.request.AccessRequest`."""

    pairs: Pairs

    @property
    def mac(self) -> str:
        return station_mac(self.first(_STATION))

    @property
    def nas_identifier(self) -> str:
        return self.first("NAS-Identifier")

    @property
    def nas_address(self) -> str:
        return self.first("NAS-IP-Address") or self.first("NAS-IPv6-Address")

    def first(self, name: str) -> str:
        return next(iter(get_values(self.pairs, name)), "")


def use_rule_names(request: object) -> object:
    """Rename RADIUS attributes such as `NAS-Identifier` to their names in rules."""
    if not isinstance(request, dict):
        return request
    return {_rule_attribute_name(name, request): values for name, values in request.items()}


def _rule_attribute_name(name: object, request: Mapping[object, object]) -> object:
    # Engine attributes do not begin with a capital letter.
    if not isinstance(name, str) or not name[:1].isupper() or find_attribute(_PREFIX + name) is None:
        return name
    return name if _PREFIX + name in request else _PREFIX + name


def packet_facts(
    attributes: Mapping[str, tuple[Scalar, ...]], realms: Collection[str] = ()
) -> dict[str, tuple[Scalar, ...]]:
    """Derive attributes from `radius.<name>` attributes; {} without such attributes.

    `realms` are removed from user names. The authentication method can be derived only for MAB, where the user name is
    the MAC address.
    """
    packet = _SimulatedPacket(
        tuple(
            (name.removeprefix(_PREFIX), str(value))
            for name, values in attributes.items()
            if name.startswith(_PREFIX)
            for value in values
        )
    )
    if not packet.pairs:
        return {}
    found: dict[str, tuple[Scalar, ...]] = {**packet_values(packet)}
    name = packet.first(_LOGIN_NAME)
    if name:
        found["identity"] = (strip_realm(name, realms),)
    station = normalise_mac(name)
    if station and station == (packet.mac or station):
        found["method"] = ("mab",)
        # Call-Check shows that the NAS wrote the MAC address as the name. Otherwise a person may have typed it.
        if not packet.first(_STATION) and packet.first("Service-Type") == "Call-Check":
            found["mac"] = (station,)
    return found
