"""Accounting is acknowledged when it is in the journal, with every attribute in order and invalid values flagged."""

import itertools
import socket

import pytest

from nac.kit import radius_packet as packet
from nac.kit.radius_packet import (
    ACCT_DELAY_TIME,
    ACCT_INPUT_GIGAWORDS,
    ACCT_INPUT_OCTETS,
    ACCT_SESSION_ID,
    ACCT_SESSION_TIME,
    ACCT_STATUS_TYPE,
    ACCT_TERMINATE_CAUSE,
    CALLING_STATION_ID,
    CLASS,
    FRAMED_IP_ADDRESS,
    NAS_IDENTIFIER,
    NAS_IP_ADDRESS,
    USER_NAME,
)
from radius.agent.accounting_parser import parse_accounting
from tests.radius.nas import Nas, joined
from tests.radius.standalone import LOOPBACK
from tests.radius.tenants import PRINTER

EVENT_TIMESTAMP, ACCT_TUNNEL_CONNECTION, ACCT_TUNNEL_PACKETS_LOST, ACCT_LINK_COUNT = 55, 68, 86, 51
LARGEST = 2**32 - 1
_numbers = itertools.count(1)


def session():
    """An Acct-Session-Id that no other test uses."""
    return [
        (USER_NAME, PRINTER),
        (CALLING_STATION_ID, PRINTER),
        (ACCT_SESSION_ID, f"session-{next(_numbers)}"),
        (NAS_IDENTIFIER, "switch-1"),
    ]


def account(cell, *attributes, tenant=None):
    """The record of an acknowledged request."""
    before = len(cell.accounting())
    assert Nas(tenant or cell.alpha).account(joined(attributes)) is not None
    [record] = cell.accounting()[before:]
    return record


@pytest.mark.parametrize(("status", "name"), [(1, "Start"), (7, "Accounting-On")])
def test_every_kind_is_acknowledged_and_journalled(cell, status, name):
    sent = session()
    record = account(cell, (ACCT_STATUS_TYPE, status), *sent)
    assert (record.slot, record.tenant_id) == (cell.alpha.slot, cell.alpha.tenant_id)
    assert (record.site_id, record.nas_id, record.nas_address) == (cell.alpha.site_id, cell.alpha.nas_id, LOOPBACK)
    assert record.attributes == (
        ("Acct-Status-Type", name),
        ("User-Name", PRINTER),
        ("Calling-Station-Id", PRINTER),
        ("Acct-Session-Id", dict(sent)[ACCT_SESSION_ID]),
        ("NAS-Identifier", "switch-1"),
    )


def test_every_attribute_is_kept_as_radiusd_prints_it(cell):
    sent = {
        "Acct-Status-Type": (ACCT_STATUS_TYPE, 2, "Stop"),
        "Class": (CLASS, b"\x00\xff", "0x00ff"),
        "Framed-IP-Address": (FRAMED_IP_ADDRESS, bytes((192, 0, 2, 7)), "192.0.2.7"),
        "NAS-IP-Address": (NAS_IP_ADDRESS, bytes((192, 0, 2, 1)), "192.0.2.1"),
        "Acct-Input-Octets": (ACCT_INPUT_OCTETS, LARGEST, "4294967295"),
        "Acct-Input-Gigawords": (ACCT_INPUT_GIGAWORDS, 3, "3"),
        "Acct-Session-Time": (ACCT_SESSION_TIME, 86_400, "86400"),
        "Acct-Delay-Time": (ACCT_DELAY_TIME, 5, "5"),
        "Acct-Terminate-Cause": (ACCT_TERMINATE_CAUSE, 1, "User-Request"),
        "Attr-250": (250, b"x", "0x78"),
    }
    record = account(cell, *((number, value) for number, value, _ in sent.values()), (CLASS, b"second"))
    assert record.nas_address == "192.0.2.1"
    printed = [(name, text) for name, (_, _, text) in sent.items()]
    assert record.attributes == (*printed, ("Class", "0x7365636f6e64"))


def test_request_without_a_status_type_is_journalled_too(cell):
    """The reader of the journal evaluates the record. The NAS must not retransmit it forever."""
    account(cell, *session())


def test_credentials_are_never_stored(cell):
    """RFC 2866 5.13 allows no credentials in accounting, but NASes of some vendors send them."""
    # CHAP-Password, ARAP-Password, MS-CHAP-Response, then a User-Password whose decrypted octets are not UTF-8.
    vendor = (311).to_bytes(4, "big") + b"\x01\x12" + b"c" * 16
    secret = [(3, b"\x01" + b"p" * 16), (70, b"p" * 16), (26, vendor), (packet.USER_PASSWORD, b"\xfe" * 16)]
    record = account(cell, (ACCT_STATUS_TYPE, 1), *session(), *secret)
    names = {"Acct-Session-Id", "Acct-Status-Type", "Calling-Station-Id", "NAS-Identifier", "User-Name"}
    assert {name for name, _ in record.attributes} == names


def test_retransmitted_packet_is_journalled_once(cell):
    """A retransmitted packet has the same source port, identifier and authenticator (RFC 5080 2.2.2)."""
    nas = Nas(cell.alpha)
    request = packet.make_accounting_request(9, joined([(ACCT_STATUS_TYPE, 1), *session()]), nas.key)
    with nas.socket(cell.alpha.acct_port) as asking:
        asking.settimeout(1)
        for _ in range(3):
            assert answer_to(asking, request)[0] == packet.ACCOUNTING_RESPONSE
    assert len(cell.accounting()) == 1


def answer_to(asking: socket.socket, request: bytes) -> bytes:
    """The response to a request, retransmitted as a NAS does.

    radiusd ignores a packet that arrives just when it finishes the previous packet.
    """
    for _ in range(5):
        asking.send(request)
        try:
            return asking.recv(4096)
        except TimeoutError:
            continue
    raise AssertionError("no answer")


def test_suspended_tenant_can_still_send_accounting(cell):
    """The devices of a suspended tenant are being disconnected, and their session times are still needed."""
    cell.set_slot(status="suspended")
    for tenant in (cell.alpha, cell.bravo):
        record = account(cell, (ACCT_STATUS_TYPE, 2), *session(), tenant=tenant)
        assert record.tenant_id == tenant.tenant_id


def test_invalid_text_session_ids_stay_distinct(cell):
    keys = set()
    for last in (b"\xfe", b"\xff"):
        record = account(cell, (ACCT_STATUS_TYPE, 3), (ACCT_SESSION_ID, b"\xff" * 252 + last))
        assert dict(record.attributes)["Acct-Session-Id"] == "=FF" * 252 + f"={last.hex().upper()}"
        usage = parse_accounting(record)
        assert (len(usage.session_id), usage.faults) == (253, ("unreadable-text",))
        keys.add(usage.session_id)
    assert len(keys) == 2


@pytest.mark.parametrize(
    "impossible",
    [(ACCT_DELAY_TIME, LARGEST), (EVENT_TIMESTAMP, 0), (EVENT_TIMESTAMP, LARGEST), (ACCT_SESSION_TIME, LARGEST)],
    ids=["delay", "1970", "2106", "session time"],
)
def test_impossible_time_is_replaced_by_the_arrival_time(cell, impossible):
    record = account(cell, (ACCT_STATUS_TYPE, 3), *session(), impossible)
    assert len(record.attributes) == 6
    usage = parse_accounting(record)
    assert (usage.event_at, usage.session_seconds, usage.faults) == (record.at, None, ("impossible-time",))


@pytest.mark.parametrize(
    ("status", "name"), [(9, "Tunnel-Start"), (14, "Tunnel-Link-Reject"), (15, "Failed"), (LARGEST, "4294967295")]
)
@pytest.mark.parametrize("switch", [b"switch-1", b"caf\xe9"], ids=["text", "no text"])
def test_tunnel_record_keeps_its_attributes(cell, status, name, switch):
    """Tunnel records (RFC 2867 3, 4) keep their attributes even if another attribute is not text."""
    tunnel = [(ACCT_TUNNEL_CONNECTION, "42"), (ACCT_TUNNEL_PACKETS_LOST, 7), (ACCT_LINK_COUNT, 2)]
    record = account(cell, (ACCT_STATUS_TYPE, status), *session()[:3], (NAS_IDENTIFIER, switch), *tunnel)
    values = {"Acct-Tunnel-Connection": "42", "Acct-Tunnel-Packets-Lost": "7", "Acct-Link-Count": "2"}
    assert values.items() <= dict(record.attributes).items()
    usage = parse_accounting(record)
    assert (usage.status_type, usage.faults) == (name, () if switch.isascii() else ("unreadable-text",))


class TestDeviceSensor:
    """Cisco device sensor data: DHCP options and LLDP TLVs, unchanged."""

    def account(self, cell, *values):
        """Send the values as Cisco-AVPair attributes (vendor 9, type 1)."""
        vendor = (9).to_bytes(4, "big")
        pairs = [(26, vendor + bytes((1, len(value) + 2)) + value) for value in values]
        return account(cell, (ACCT_STATUS_TYPE, 3), *session(), *pairs).attributes

    def test_every_octet_of_every_option_is_journalled(self, cell):
        sent = [b"dhcp-option=\x00\x0c\x00\x06BRW001", b"dhcp-option=\x00\x37\x00\x06\x01\x03\x06\x0f\x77\xfc"]
        sent += [b"lldp-tlv=\x00\x06\x00\x04" + bytes((number,)) * 4 for number in range(12)]
        kept = [bytes.fromhex(value[2:]) for name, value in self.account(cell, *sent) if name == "Device-Sensor"]
        assert kept == sent

    def test_other_cisco_pairs_are_not_journalled_twice(self, cell):
        attributes = self.account(cell, b"audit-session-id=0A0000010000", b"http-tlv=\x00\x01\x00\x07curl/8\xff")
        assert [name for name, _ in attributes].count("Device-Sensor") == 1
