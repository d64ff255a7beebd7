"""Accounting is acknowledged when it is in the journal, with every attribute in order."""

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
from tests.radius.nas import Nas, joined
from tests.radius.standalone import LOOPBACK
from tests.radius.tenants import PRINTER

_numbers = itertools.count(1)


def session():
    """An Acct-Session-Id that no other test uses."""
    return [
        (USER_NAME, PRINTER),
        (CALLING_STATION_ID, PRINTER),
        (ACCT_SESSION_ID, f"session-{next(_numbers)}"),
        (NAS_IDENTIFIER, "switch-1"),
    ]


@pytest.mark.parametrize(("status", "name"), [(1, "Start"), (7, "Accounting-On")])
def test_every_kind_is_acknowledged_and_journalled(cell, status, name):
    sent = session()
    assert Nas(cell.alpha).account(joined([(ACCT_STATUS_TYPE, status), *sent])) is not None
    (record,) = cell.accounting()
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
    sent = [
        (ACCT_STATUS_TYPE, 2),
        (CLASS, b"\x00\xff"),
        (FRAMED_IP_ADDRESS, bytes((192, 0, 2, 7))),
        (NAS_IP_ADDRESS, bytes((192, 0, 2, 1))),
        (ACCT_INPUT_OCTETS, 4_294_967_295),
        (ACCT_INPUT_GIGAWORDS, 3),
        (ACCT_SESSION_TIME, 86_400),
        (ACCT_DELAY_TIME, 5),
        (ACCT_TERMINATE_CAUSE, 1),
        (CLASS, b"second"),
        (250, b"x"),
    ]
    assert Nas(cell.alpha).account(joined(sent)) is not None
    (record,) = cell.accounting()
    assert record.nas_address == "192.0.2.1"
    assert record.attributes == (
        ("Acct-Status-Type", "Stop"),
        ("Class", "0x00ff"),
        ("Framed-IP-Address", "192.0.2.7"),
        ("NAS-IP-Address", "192.0.2.1"),
        ("Acct-Input-Octets", "4294967295"),
        ("Acct-Input-Gigawords", "3"),
        ("Acct-Session-Time", "86400"),
        ("Acct-Delay-Time", "5"),
        ("Acct-Terminate-Cause", "User-Request"),
        ("Class", "0x7365636f6e64"),
        ("Attr-250", "0x78"),
    )


def test_request_without_a_status_type_is_journalled_too(cell):
    """The reader of the journal evaluates the record. The NAS must not retransmit it forever."""
    assert Nas(cell.alpha).account(joined(session())) is not None
    assert len(cell.accounting()) == 1


def test_credentials_are_never_stored(cell):
    """RFC 2866 5.13 allows no credentials in accounting, but NASes of some vendors send them."""
    sent = session()
    # CHAP-Password, ARAP-Password, MS-CHAP-Response, then a User-Password whose decrypted octets are not UTF-8.
    vendor = (311).to_bytes(4, "big") + b"\x01\x12" + b"c" * 16
    secret = [(3, b"\x01" + b"p" * 16), (70, b"p" * 16), (26, vendor), (packet.USER_PASSWORD, b"\xfe" * 16)]
    assert Nas(cell.alpha).account(joined([(ACCT_STATUS_TYPE, 1), *sent, *secret])) is not None
    (record,) = cell.accounting()
    assert sorted(name for name, _ in record.attributes) == [
        "Acct-Session-Id",
        "Acct-Status-Type",
        "Calling-Station-Id",
        "NAS-Identifier",
        "User-Name",
    ]


def test_retransmitted_packet_is_journalled_once(cell):
    """A retransmitted packet has the same source port, identifier and authenticator (RFC 5080 2.2.2)."""
    nas = Nas(cell.alpha)
    request = packet.make_accounting_request(9, joined([(ACCT_STATUS_TYPE, 1), *session()]), nas.key)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        asking.connect((LOOPBACK, cell.alpha.acct_port))
        asking.settimeout(1)
        for _ in range(3):
            assert answer_to(asking, request)[0] == packet.ACCOUNTING_RESPONSE
    assert len(cell.accounting()) == 1


def answer_to(asking, request):
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


def test_records_of_both_tenants_are_separate(cell):
    for tenant in cell.tenants.values():
        assert Nas(tenant).account(joined([(ACCT_STATUS_TYPE, 1), *session()])) is not None
    assert [record.tenant_id for record in cell.accounting()] == [cell.alpha.tenant_id, cell.bravo.tenant_id]


def test_suspended_tenant_can_still_send_accounting(cell, replica):
    """The devices of a suspended tenant are being disconnected, and their session times are still needed."""
    with replica.begin() as batch:
        batch.put_slot(cell.alpha.slot, cell.alpha.slot_record(status="suspended"))
    assert Nas(cell.alpha).account(joined([(ACCT_STATUS_TYPE, 2), *session()])) is not None
