"""What Cisco's device sensor adds to accounting: "dhcp-option=" and its kin, then type, length and value in octets.

Type and length are 16 bits each, big-endian. The input is a device's: every function here is total.
"""

from typing import NamedTuple

# radiusd hands Cisco-AVPairs over a second time under this name, in hex, because they hold NULs.
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
    """False for a Cisco-AVPair that came this way and is nothing of the sensor's."""
    return pair[0] != SENSOR_ATTRIBUTE or pair[1].startswith(_STARTS)


def read_tlv(text: str) -> Tlv | None:
    """Of one Device-Sensor value ("0x..."), None where it is none. A value cut short is read as far as it goes."""
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
