"""Cisco device sensor data in accounting: DHCP options and LLDP TLVs, unchanged."""

import itertools

from nac.kit.radius_packet import ACCT_SESSION_ID, ACCT_STATUS_TYPE, CALLING_STATION_ID, encode_attribute
from tests.radius.nas import Nas, joined

_numbers = itertools.count(1)


def avpair(value: bytes) -> bytes:
    """A Cisco-AVPair attribute (vendor 9, type 1)."""
    return encode_attribute(26, (9).to_bytes(4, "big") + bytes((1, len(value) + 2)) + value)


def account(cell, *values):
    sent = [
        (ACCT_STATUS_TYPE, 3),
        (CALLING_STATION_ID, "00-1B-A9-01-02-03"),
        (ACCT_SESSION_ID, f"sensor-{next(_numbers)}"),
    ]
    assert Nas(cell.alpha).account(joined(sent) + b"".join(map(avpair, values))) is not None
    (record,) = cell.accounting()
    return record.attributes


def sensor_records(cell, *values):
    return [bytes.fromhex(value[2:]) for name, value in account(cell, *values) if name == "Device-Sensor"]


def test_every_octet_of_every_option_is_journalled(cell):
    sent = [b"dhcp-option=\x00\x0c\x00\x06BRW001", b"dhcp-option=\x00\x37\x00\x06\x01\x03\x06\x0f\x77\xfc"]
    sent += [b"lldp-tlv=\x00\x06\x00\x04" + bytes((number,)) * 4 for number in range(12)]
    assert sensor_records(cell, *sent) == sent


def test_other_cisco_pairs_are_not_journalled_twice(cell):
    attributes = account(cell, b"audit-session-id=0A0000010000", b"http-tlv=\x00\x01\x00\x07curl/8\xff")
    assert [name for name, _ in attributes].count("Device-Sensor") == 1
