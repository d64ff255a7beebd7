"""Reads the data of Cisco device sensors in accounting requests: a name such as "dhcp-option=", then a TLV.

A TLV consists of type and length (16 bits each, big-endian) and value. Devices can send any data, so the functions of
this module raise no errors for invalid data.
"""

from typing import NamedTuple

# Attribute in which radiusd passes these Cisco-AVPairs again, as hexadecimal digits, because they contain NUL octets.
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
    """Parse the value ("0x...") of a Device-Sensor attribute. The TLV can be truncated. Returns None if invalid."""
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
