"""An Access-Request as the module sees it: attributes by name, and who asks from where."""

import re
from collections.abc import Mapping
from functools import lru_cache

from nac.mac import called_station_ssid, is_random_mac, normalise_mac
from nac.replica.records import NasRecord
from nac.replica.store import ReplicaView
from radius.module.addresses import packed_address
from radius.module.radiusd_api import Pairs

Attributes = dict[str, tuple[str, ...]]
EngineValues = dict[str, tuple[str | int | bool, ...]]

# Credentials by name, vendors' own included: neither rules nor any log see them. EAP-Key-Name only names a key.
_CREDENTIAL = re.compile(r"Password|Passphrase|Secret|-Key$|-Keys$|^CHAP-|^MS-CHAP|^MS-MPPE-|^ARAP-|^Digest-Response$")
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
_ENGINE_NAMES: dict[str, str] = {}
MAX_ENGINE_NAMES = 5_000
_EMPTY = ("",)


def collect(pairs: Pairs | None) -> Attributes:
    """Values by attribute name, in order; an attribute that comes twice keeps both."""
    found: Attributes = {}
    for name, value in pairs or ():
        if name in found:
            found[name] += (value,)
        else:
            found[name] = (value,)
    return found


@lru_cache(maxsize=5_000)
def is_recordable(name: str) -> bool:
    """Whether the attribute may be kept: it is the packet's, not ours, and no credential."""
    return not name.startswith("Admit-") and _CREDENTIAL.search(name) is None


def first(attributes: Mapping[str, tuple[str, ...]], name: str) -> str:
    values = attributes.get(name)
    return values[0] if values else ""


class AccessRequest:
    """Facts of one packet that both callbacks need. Strings are "" where the packet does not say."""

    __slots__ = (
        "attributes",
        "mac",
        "nas_address",
        "nas_identifier",
        "nas_port",
        "slot",
        "source",
        "ssid",
        "user_name",
    )

    def __init__(self, pairs: Pairs | None) -> None:
        attributes = collect(pairs)
        self.attributes = attributes
        get = attributes.get
        self.slot = int(attributes["Admit-Slot"][0])
        self.user_name = get("User-Name", _EMPTY)[0]
        self.mac = normalise_mac(get("Calling-Station-Id", _EMPTY)[0])
        self.ssid = called_station_ssid(get("Called-Station-Id", _EMPTY)[0])
        self.nas_identifier = get("NAS-Identifier", _EMPTY)[0]
        self.source = get("Admit-Source", _EMPTY)[0]
        self.nas_address = get("NAS-IP-Address", _EMPTY)[0] or get("NAS-IPv6-Address", _EMPTY)[0] or self.source
        self.nas_port = get("NAS-Port-Id", _EMPTY)[0] or get("NAS-Port", _EMPTY)[0]

    def nas_key(self) -> str:
        return self.nas_identifier or self.nas_address

    def names_its_station(self) -> bool:
        """Whether a name that is a MAC address may stand for the Calling-Station-Id: some switches send none with MAB.

        Not where one is sent that is no MAC address, nor with the service types of logins: there a person may have
        typed the name.
        """
        attributes = self.attributes
        return "Calling-Station-Id" not in attributes and first(attributes, "Service-Type") in ("", "Call-Check")

    def find_nas(self, view: ReplicaView, tenant: int) -> NasRecord | None:
        """By NAS-Identifier, then by the address it states, then by the address it sends from."""
        if self.nas_identifier:
            nas = view.nas_by_identifier(tenant, self.nas_identifier)
            if nas is not None:
                return nas
        nas = self._nas_by_address(view, tenant, self.nas_address)
        if nas is None and self.source != self.nas_address:
            nas = self._nas_by_address(view, tenant, self.source)
        return nas

    @staticmethod
    def _nas_by_address(view: ReplicaView, tenant: int, address: str) -> NasRecord | None:
        packed = packed_address(address)
        return view.nas_by_address(tenant, packed) if packed else None

    def engine_values(self) -> EngineValues:
        """`radius.<Name>` for every attribute that rules may see, and what follows from the packet alone."""
        values: EngineValues = {}
        for name, found in self.attributes.items():
            engine_name = _ENGINE_NAMES.get(name)
            if engine_name is None:
                engine_name = _name_for_engine(name)
            if engine_name:
                values[engine_name] = found
        if self.mac:
            values["mac"] = (self.mac,)
            values["mac.random"] = (is_random_mac(self.mac),)
        if self.ssid:
            values["ssid"] = (self.ssid,)
        if self.nas_identifier:
            values["nas.identifier"] = (self.nas_identifier,)
        if self.nas_address:
            values["nas.address"] = (self.nas_address,)
        port_type = self.attributes.get("NAS-Port-Type")
        if port_type:
            values["nas.port_type"] = port_type
        return values


def _name_for_engine(name: str) -> str:
    hidden = name in _PRIVATE or name.startswith(_OWN_PREFIXES) or not is_recordable(name)
    engine_name = "" if hidden else "radius." + name
    if len(_ENGINE_NAMES) < MAX_ENGINE_NAMES:
        _ENGINE_NAMES[name] = engine_name
    return engine_name
