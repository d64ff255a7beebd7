"""The failure limiter rejects a repeatedly failing device without a check, and affects no other device."""

import time

import pytest

from nac.cellformat.replica.records import EndpointRecord
from nac.kit import radius_packet as packet
from nac.kit.radius_packet import CALLING_STATION_ID, NAS_IDENTIFIER, SERVICE_TYPE, STATE, USER_NAME
from tests.radius.devices import VERSIONS, Device
from tests.radius.nas import Nas, joined
from tests.radius.supplicant import eap_tls, new_mac
from tests.radius.tenants import PRINTER

LIMIT = 5


@pytest.fixture(autouse=True)
def limited(cell, replica):
    with replica.begin() as batch:
        batch.put_slot(cell.alpha.slot, cell.alpha.slot_record(failure_limit=LIMIT))


def ask(cell, mac, *, nas="switch-limits", more=()):
    attributes = joined([(USER_NAME, mac), (CALLING_STATION_ID, mac), (NAS_IDENTIFIER, nas), *more])
    return Nas(cell.alpha).ask(attributes, password=mac.encode())[0]


def exhaust(cell, mac, **options):
    for _ in range(LIMIT):
        assert ask(cell, mac, **options) == packet.ACCESS_REJECT


def reasons(cell, mac):
    return [record.reason for record in cell.decisions(mac=mac)]


def test_failure_over_the_limit_is_rejected_without_a_check(cell):
    mac = new_mac()
    exhaust(cell, mac)
    assert ask(cell, mac) == packet.ACCESS_REJECT
    assert reasons(cell, mac) == ["unknown-mac"] * LIMIT + ["rate-limited"]


@pytest.mark.parametrize("separator", ["", ":", "-"])
def test_mac_address_as_name_is_limited_and_logged(cell, separator):
    mac = new_mac()
    name = separator.join(mac[place : place + 2] for place in range(0, 12, 2)).upper()
    attributes = joined([(USER_NAME, name), (NAS_IDENTIFIER, "switch-limits"), (SERVICE_TYPE, 10)])
    for _ in range(LIMIT + 1):
        assert Nas(cell.alpha).ask(attributes, password=name.encode())[0] == packet.ACCESS_REJECT
    assert reasons(cell, mac) == ["unknown-mac"] * LIMIT + ["rate-limited"]
    assert {record.method for record in cell.decisions(mac=mac)} == {"mab"}


def test_newly_known_device_waits_for_the_window_to_end(cell, replica):
    mac = new_mac()
    with replica.begin() as batch:
        batch.put_slot(cell.alpha.slot, cell.alpha.slot_record(failure_limit=LIMIT, window_seconds=1))
    began = time.monotonic()
    exhaust(cell, mac)
    with replica.begin() as batch:
        batch.put_endpoint(cell.alpha.number, mac, EndpointRecord("", "", "active", ("printers",), 0, {}))
    if time.monotonic() - began < 0.8:
        assert ask(cell, mac) == packet.ACCESS_REJECT
    time.sleep(1.1)
    assert ask(cell, mac) == packet.ACCESS_ACCEPT


def test_other_devices_and_nases_are_not_limited(cell):
    mac = new_mac()
    exhaust(cell, mac)
    ask(cell, mac)
    assert ask(cell, PRINTER) == packet.ACCESS_ACCEPT
    other = new_mac()
    ask(cell, other)
    assert reasons(cell, other) == ["unknown-mac"]
    ask(cell, mac, nas="another-switch")
    assert reasons(cell, mac)[-1] == "unknown-mac"


def test_same_device_at_another_tenant_is_not_limited(cell):
    mac = new_mac()
    exhaust(cell, mac)
    attributes = joined([(USER_NAME, mac), (CALLING_STATION_ID, mac), (NAS_IDENTIFIER, "switch-limits")])
    Nas(cell.bravo).ask(attributes, password=mac.encode())
    assert cell.decision(tenant_id=cell.bravo.tenant_id).reason == "unknown-mac"


def test_flood_is_logged_once_a_second_with_the_count(cell):
    mac = new_mac()
    exhaust(cell, mac)
    began = time.monotonic()
    for _ in range(40):
        ask(cell, mac)
    seconds = time.monotonic() - began
    logged = cell.decisions(mac=mac)[LIMIT:]
    assert 1 <= len(logged) <= 1 + seconds
    time.sleep(1.05)
    ask(cell, mac)
    told = cell.decisions(mac=mac)[LIMIT:]
    assert {record.reason for record in told} == {"rate-limited"}
    # Each of the 41 failures is a record or is counted by a record.
    assert len(told) + sum(record.suppressed for record in told) == 41


def test_limited_eap_device_is_rejected_at_its_first_packet(cell):
    mac = new_mac()
    for _ in range(LIMIT):
        eap_tls(cell.alpha, cell.alpha.clients["expired"], mac=mac).run()
    seen = eap_tls(cell.alpha, cell.alpha.clients["laptop"], mac=mac).run()
    assert seen.codes == ["Access-Reject"]
    assert seen.eap_failure
    assert reasons(cell, mac) == ["certificate-expired"] * LIMIT + ["rate-limited"]


def test_invented_state_does_not_bypass_the_limit(cell):
    """A packet with an invented State bypasses the first check of a conversation."""
    mac = new_mac()
    eap = packet.encode_eap_message(b"\x02\x07\x00\x06\x0d\x00")
    for _ in range(LIMIT + 20):
        attributes = joined([(USER_NAME, mac), (CALLING_STATION_ID, mac), (STATE, b"made up, as it were")])
        assert Nas(cell.alpha).ask(attributes + eap)[0] == packet.ACCESS_REJECT
    records = cell.decisions(mac=mac)
    assert [record.reason for record in records][: LIMIT + 1] == ["eap-failed"] * LIMIT + ["rate-limited"]
    assert len(records) <= LIMIT + 3


def test_rejects_of_a_pending_conversation_count(cell):
    device = Device(cell.alpha.clients["revoked"], VERSIONS[1])
    for _ in range(LIMIT):
        device.visit(cell.alpha, expected=packet.ACCESS_REJECT)
    attributes = joined([(USER_NAME, device.mac), (CALLING_STATION_ID, device.mac)])
    Nas(cell.alpha).ask(attributes, password=b"")
    assert reasons(cell, device.mac) == ["certificate-revoked"] * LIMIT + ["rate-limited"]


def test_all_spellings_of_a_name_count_together(cell):
    """A VPN gateway sends no MAC address, and user names match in any case."""
    nas = Nas(cell.alpha)
    for name in ("anna", "ANNA", "Anna", "aNNA", "annA", "anna "):
        attributes = joined([(USER_NAME, name), (NAS_IDENTIFIER, "vpn-limits")])
        assert nas.ask(attributes, password=b"wrong password")[0] == packet.ACCESS_REJECT
    assert [record.reason for record in cell.decisions()][-1] == "rate-limited"
