"""Reads evidence about a device from a RADIUS packet: DHCP options, LLDP, CDP, User-Agent, classification by the NAS.

Devices and NASes can send any data. So the functions of this module raise no errors for invalid data. Results contain
only the keys `EVIDENCE_KEYS`, and each value has at most `MAX_VALUE` characters.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from nac.cellformat.packet_values import Pairs
from nac.inventory.profiling import sensor
from nac.inventory.profiling.sensor import Tlv

MAX_VALUE = 255


class Evidence(NamedTuple):
    # dhcp | lldp | cdp | http | radius
    source: str
    key: str
    value: str


def _decode_text(octets: bytes) -> str:
    return _clean(octets.decode("utf-8", "replace"))


def _clean(text: str) -> str:
    """Return the text as one line of printable characters, which terminals can show and PostgreSQL can store."""
    return "".join(c if c.isprintable() else " " for c in text[: 2 * MAX_VALUE]).strip()[:MAX_VALUE]


def _decode_numbers(octets: bytes) -> str:
    """Decode a list of DHCP option codes (RFC 2132 9.8) to text, such as "1,3,6"."""
    return ",".join(map(str, octets))[:MAX_VALUE].rstrip(",")


def _decode_fqdn(octets: bytes) -> str:
    """Return the name in a client FQDN option (RFC 4702 2). With flag E, the option has the name in DNS wire format."""
    if len(octets) < 4:
        return ""
    if not octets[0] & 4:
        return _decode_text(octets[3:])
    labels, at = [], 3
    while at < len(octets) and 0 < octets[at] < 64:
        labels.append(octets[at + 1 : at + 1 + octets[at]])
        at += 1 + octets[at]
    return _decode_text(b".".join(labels))


def _decode_lldp_capabilities(octets: bytes) -> str:
    """Decode the enabled capabilities, which follow the supported capabilities (IEEE 802.1AB 8.5.8)."""
    return _bit_names(int.from_bytes(octets[2:4] if len(octets) >= 4 else octets[:2]), _LLDP_CAPABILITIES)


def _decode_cdp_capabilities(octets: bytes) -> str:
    return _bit_names(int.from_bytes(octets[:4]), _CDP_CAPABILITIES)


def _bit_names(value: int, names: tuple[str, ...]) -> str:
    return ",".join(name for place, name in enumerate(names) if value >> place & 1)


_LLDP_CAPABILITIES = ("other", "repeater", "bridge", "wlan-ap", "router", "telephone", "docsis", "station")
_CDP_CAPABILITIES = ("router", "bridge", "source-route-bridge", "switch", "host", "igmp", "repeater", "phone")

_TLVS: Mapping[tuple[str, int], tuple[str, Callable[[bytes], str]]] = {
    # DHCP options (RFC 2132 3.14, 9.8, 9.13).
    ("dhcp", 12): ("hostname", _decode_text),
    ("dhcp", 55): ("parameters", _decode_numbers),
    ("dhcp", 60): ("class", _decode_text),
    ("dhcp", 81): ("fqdn", _decode_fqdn),
    # LLDP TLVs (IEEE 802.1AB 8.5).
    ("lldp", 5): ("name", _decode_text),
    ("lldp", 6): ("description", _decode_text),
    ("lldp", 7): ("capabilities", _decode_lldp_capabilities),
    ("cdp", 1): ("name", _decode_text),
    ("cdp", 4): ("capabilities", _decode_cdp_capabilities),
    ("cdp", 5): ("version", _decode_text),
    ("cdp", 6): ("platform", _decode_text),
    ("http", 1): ("user-agent", _decode_text),
}
# RADIUS attributes in which a NAS reports, as plain text, how it classified the device.
_PLAIN_ATTRIBUTES: Mapping[str, tuple[str, str]] = {
    "Aruba-Device-Type": ("radius", "device-type"),
    "Ruckus-Client-Device-Type": ("radius", "device-type"),
    "Ruckus-Client-Host-Name": ("radius", "hostname"),
    "Ruckus-Client-Os-Type": ("radius", "os"),
    "Ruckus-Client-Os-Class": ("radius", "os-class"),
}
# Names of Cisco-AVPairs in which a Cisco wireless controller reports how it classified the device.
_AVPAIRS: Mapping[str, tuple[str, str]] = {
    "dc-profile-name": ("radius", "device-type"),
    "dc-device-name": ("radius", "device-name"),
    "dc-device-class-tag": ("radius", "device-class"),
}
_EVIDENCE_ATTRIBUTES = frozenset((sensor.SENSOR_ATTRIBUTE, "Cisco-AVPair", "User-Name", *_PLAIN_ATTRIBUTES))
# User name of a Windows computer that logs in without a user: "host/<name>" or "DOMAIN\\NAME$".
_MACHINE_PREFIX, _MACHINE_SUFFIX = "host/", "$"
EVIDENCE_KEYS = frozenset(
    (
        *((source, key) for (source, _), (key, _) in _TLVS.items()),
        *_PLAIN_ATTRIBUTES.values(),
        *_AVPAIRS.values(),
        ("radius", "machine"),
    )
)


def filter_evidence_pairs(pairs: Pairs) -> Pairs:
    """Return the attributes that contain evidence. Two packets with the same evidence have equal results."""
    return tuple([pair for pair in pairs if pair[0] in _EVIDENCE_ATTRIBUTES and _is_evidence(*pair)])


def _is_evidence(name: str, value: str) -> bool:
    if name == "User-Name":
        return value.startswith(_MACHINE_PREFIX) or value.endswith(_MACHINE_SUFFIX)
    return name != "Cisco-AVPair" or value.partition("=")[0] in _AVPAIRS


def read_evidence(pairs: Pairs) -> tuple[Evidence, ...]:
    """Return the evidence in one packet, ordered by source and key. The last value of a key wins."""
    found: dict[tuple[str, str], str] = {}
    for name, value in filter_evidence_pairs(pairs):
        each = _read_attribute(name, value)
        if each is not None and each.value:
            found[each.source, each.key] = each.value
    return tuple(Evidence(source, key, found[source, key]) for source, key in sorted(found))


def _read_attribute(name: str, value: str) -> Evidence | None:
    if name == sensor.SENSOR_ATTRIBUTE:
        tlv = sensor.read_tlv(value)
        return None if tlv is None else _read_tlv_evidence(tlv)
    if name == "Cisco-AVPair":
        key, _, rest = value.partition("=")
        return Evidence(*_AVPAIRS[key], _clean(rest))
    if name == "User-Name":
        return Evidence("radius", "machine", _clean(value))
    return Evidence(*_PLAIN_ATTRIBUTES[name], _clean(value))


def _read_tlv_evidence(tlv: Tlv) -> Evidence | None:
    known = _TLVS.get((tlv.source, tlv.type))
    if known is None:
        return None
    key, read = known
    return Evidence(tlv.source, key, read(tlv.value))
