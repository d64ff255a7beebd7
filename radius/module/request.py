"""An Access-Request as the module uses it: attributes by name, the NAS and the device."""

import ipaddress
import re
import socket
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from nac.cellformat.packet_values import Pairs, get_values
from nac.cellformat.replica.records import NasRecord
from nac.cellformat.replica.store import ReplicaView
from nac.kit.mac import station_mac
from radius.module.settings import UNSIGNED_SUFFIX

# If a request contains text that is not UTF-8, radiusd passes on only the attributes in this file, with escapes.
_RADDB = Path(__file__).parent.parent / "raddb"
_FILTER = _RADDB / "mods-config" / "attr_filter" / "printable"
KEPT_ATTRIBUTES = frozenset(re.findall(r"^\t([\w-]+) ", _FILTER.read_text(), re.MULTILINE))

_ESCAPED_ATTRIBUTES = frozenset(re.findall(r"^\t([\w-]+) := ", _FILTER.read_text(), re.MULTILINE))
_SET_ASIDE_ATTRIBUTES = frozenset(
    re.findall(r"&request:([\w-]+)", (_RADDB / "policy.d" / "admit").read_text().partition("admit_printable_end {")[2])
)
_ESCAPE = re.compile(rb"=([0-9A-Fa-f]{2})")

# Position of the EAP type in the hex of an EAP-Message: after "0x", code, identifier and length.
_EAP_TYPE = slice(10, 12)
# Length of the prefix in the virtual server's name, such as "slot_0".
SLOT_PREFIX_LENGTH = len("slot_")

Attributes = dict[str, tuple[str, ...]]


def group_by_name(pairs: Pairs | None) -> Attributes:
    """Group values by attribute name, in order. All values of a repeated attribute are kept."""
    groups: Attributes = {}
    for name, value in pairs or ():
        if name in groups:
            groups[name] += (value,)
        else:
            groups[name] = (value,)
    return groups


def first_value(attributes: Mapping[str, tuple[str, ...]], name: str) -> str:
    values = attributes.get(name)
    return values[0] if values else ""


def first_values(pairs: Pairs | None) -> dict[str, str]:
    """First value of each attribute. If a packet repeats an attribute, only its first value is used."""
    return dict(reversed(pairs)) if pairs else {}


def unescape_pairs(pairs: Pairs) -> Pairs:
    """Undo the escapes of radiusd's printable copy, for texts that are valid UTF-8."""
    return tuple((name, _unescape(value) if name in _ESCAPED_ATTRIBUTES else value) for name, value in pairs)


def _unescape(text: str) -> str:
    try:
        return _ESCAPE.sub(lambda match: bytes.fromhex(match[1].decode()), text.encode()).decode()
    except UnicodeDecodeError:
        return text


class AccessRequest:
    """Data of one packet that `authorize` and `post_auth` need. A missing string is ""."""

    __slots__ = ("attributes", "mac", "nas_address", "nas_identifier", "pairs", "slot", "source", "user_name")

    def __init__(self, pairs: Pairs | None, control: Pairs | None = None) -> None:
        """Parse the packet's attributes. `control` shows whether radiusd made a printable copy of the request."""
        attributes = first_values(pairs)
        if "Admit-Filtered" in attributes:
            pairs = unescape_pairs(pairs or ()) + tuple(
                pair for pair in control or () if pair[0] in _SET_ASIDE_ATTRIBUTES
            )
            attributes = first_values(pairs)
        self.pairs: Pairs = pairs or ()
        # First value of each attribute.
        self.attributes = attributes
        get = attributes.get
        self.slot = int(attributes["Admit-Slot"][SLOT_PREFIX_LENGTH:])
        self.user_name = get("User-Name", "")
        self.mac = station_mac(get("Calling-Station-Id", ""))
        self.nas_identifier = get("NAS-Identifier", "")
        self.source = get("Admit-Source", "")
        self.nas_address = get("NAS-IP-Address") or get("NAS-IPv6-Address") or self.source

    @property
    def nas_port(self) -> str:
        get = self.attributes.get
        return get("NAS-Port-Id") or get("NAS-Port", "")

    @property
    def proof(self) -> tuple[str, ...]:
        """Secret that the NAS used during a rotation: rotation id, "old" or "new", and source address; empty if
        unknown.

        The value comes from radius.module.secret_lookup.
        """
        of_client = self.attributes.get("Admit-Secret", "")
        if ":" not in of_client:
            return ()
        _, which, rotation = (*of_client.split(":"), "", "")[:3]
        return (rotation, which, self.source) if rotation else ()

    @property
    def signature(self) -> tuple[str, ...]:
        """For a NAS that may omit Message-Authenticator: "signed" or "unsigned", and the source address; otherwise
        empty.
        """
        attributes = self.attributes
        if not attributes.get("Admit-Secret", "").endswith(UNSIGNED_SUFFIX) or "EAP-Message" in attributes:
            return ()
        return ("signed" if "Message-Authenticator" in attributes else "unsigned", self.source)

    def is_nak(self) -> bool:
        """Whether the device rejects the proposed EAP type and lists other types (RFC 3748 5.3.1)."""
        return self.attributes.get("EAP-Message", "")[_EAP_TYPE] == "03"

    def has_empty_identity(self) -> bool:
        """Whether the EAP identity is empty (RFC 3748 5.1). An EAP packet with an empty identity has five octets."""
        return self.attributes.get("EAP-Message", "")[2:4] == "02" and self.attributes["EAP-Message"][6:] == "000501"

    @property
    def is_filtered(self) -> bool:
        """Whether the request contained text that is not UTF-8, so that most attributes are missing."""
        return "Admit-Filtered" in self.attributes

    def may_have_lost(self, name: str) -> bool:
        """Whether the attribute may be missing in this object although the packet contains the attribute."""
        return self.is_filtered and name not in KEPT_ATTRIBUTES

    def values(self, name: str) -> tuple[str, ...]:
        return get_values(self.pairs, name)

    def nas_key(self) -> str:
        return self.nas_identifier or self.nas_address

    def names_its_station(self, nas: NasRecord | None) -> bool:
        """Whether a MAC address in User-Name may replace Calling-Station-Id, which some switches omit with MAB.

        False if the request has any Calling-Station-Id. Without Calling-Station-Id, the result is true with
        Service-Type Call-Check. Without a Service-Type, the result is true if the NAS has `mab_by_name`. With any
        other Service-Type, a person may have typed the name.
        """
        if "Calling-Station-Id" in self.attributes:
            return False
        service = self.attributes.get("Service-Type", "")
        return service == "Call-Check" or (not service and nas is not None and nas.mab_by_name)

    def station_detail(self) -> str:
        """Reason why the request has no MAC address of the device."""
        station = self.attributes.get("Calling-Station-Id")
        if station is not None:
            return f"Calling-Station-Id is {station[:64]!r}, which is no MAC address"
        service = self.attributes.get("Service-Type", "")
        return f"no Calling-Station-Id, {f'Service-Type {service}' if service else 'no Service-Type'}"

    def find_nas(self, view: ReplicaView, tenant: int) -> NasRecord | None:
        """Find the NAS by NAS-Identifier, then by the address in the request, then by the source address."""
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


# A tenant's NASes send the same few addresses with every packet.
@lru_cache(maxsize=4096)
def packed_address(text: str) -> bytes:
    """Address as 4 or 16 bytes; b"" if `text` is not an address.

    An IPv4-mapped IPv6 address becomes an IPv4 address.
    """
    try:
        return socket.inet_pton(socket.AF_INET, text)
    except (OSError, ValueError):
        pass
    try:
        address = ipaddress.IPv6Address(text)
    except ValueError:
        return b""
    mapped = address.ipv4_mapped
    return mapped.packed if mapped else address.packed
