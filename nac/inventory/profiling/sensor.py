"""Reads the data of Cisco device sensors in accounting requests: a name such as "dhcp-option=", then a TLV.

In the TLV, type and length have 16 bits each, big-endian. Devices can send any data, so no function in this module
raises an error.
"""

from typing import NamedTuple

# radiusd passes these Cisco-AVPairs again in this attribute, as hexadecimal digits, because they contain NUL octets.
SENSOR_ATTRIBUTE = "Device-Sensor"
_KINDS = {"dhcp-option": "dhcp", "lldp-tlv": "lldp", "cdp-tlv": "cdp", "http-tlv": "http"}
_STARTS = tuple("0x" + f"{kind}=".encode().hex() for kind in _KINDS)
_HEADER = 4


class Tlv(NamedTuple):
    # dhcp | lldp | cdp | http
    source: str
    type: int
    value: bytes


def is_sensor_pair(pair: tuple[str, str]) -> bool:
    """Return False for a Device-Sensor attribute without sensor data, True for all other attributes."""
    return pair[0] != SENSOR_ATTRIBUTE or pair[1].startswith(_STARTS)


def read_tlv(text: str) -> Tlv | None:
    """Parse a Device-Sensor value ("0x..."), also if it is truncated. Returns None if the value is invalid."""
    try:
        octets = bytes.fromhex(text.removeprefix("0x"))
    except ValueError:
        return None
    kind, mark, body = octets.partition(b"=")
    source = _KINDS.get(kind.decode("latin-1"))
    if source is None or not mark or len(body) < _HEADER:
        return None
    length = int.from_bytes(body[2:_HEADER])
    return Tlv(source, int.from_bytes(body[:2]), body[_HEADER : _HEADER + length])
