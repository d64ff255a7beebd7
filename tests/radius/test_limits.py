"""The failure limiter rejects a repeatedly failing device without a check, and affects no other device."""

import time

import pytest

from nac.cellformat.replica.records import EndpointRecord
from nac.kit import radius_packet as packet
from nac.kit.radius_packet import ACCESS_ACCEPT, ACCESS_REJECT, NAS_IDENTIFIER, SERVICE_TYPE, STATE
from tests.radius.devices import VERSIONS, Device
from tests.radius.nas import Nas, log_in, named
from tests.radius.supplicant import eap_tls, new_mac
from tests.radius.tenants import PRINTER

LIMIT = 5
SWITCH = (NAS_IDENTIFIER, "switch-limits")


@pytest.fixture(autouse=True)
def limited(cell):
    for tenant in cell.tenants.values():
        cell.set_slot(tenant, failure_limit=LIMIT)


def ask(cell, mac, *, nas=SWITCH):
    return log_in(cell.alpha, mac, mac, nas, station=mac)


def exhaust(cell, mac):
    for _ in range(LIMIT):
        assert ask(cell, mac) == ACCESS_REJECT


def reasons(cell, mac):
    return [record.reason for record in cell.decisions(mac=mac)]


@pytest.mark.parametrize(("separator", "station"), [("", True), ("", False), (":", False), ("-", False)])
def test_failure_over_the_limit_is_rejected_without_a_check(cell, separator, station):
    """A NAS may name the device only in User-Name."""
    mac = new_mac()
    name = separator.join(mac[place : place + 2] for place in range(0, 12, 2)).upper()
    for _ in range(LIMIT + 1):
        code = log_in(cell.alpha, name, name, SWITCH, (SERVICE_TYPE, 10), station=mac if station else None)
        assert code == ACCESS_REJECT
    assert reasons(cell, mac) == ["unknown-mac"] * LIMIT + ["rate-limited"]
    assert {record.method for record in cell.decisions(mac=mac)} == {"mab"}


def test_newly_known_device_waits_for_the_window_to_end(cell):
    mac = new_mac()
    cell.set_slot(failure_limit=LIMIT, failure_window_seconds=1)
    began = time.monotonic()
    exhaust(cell, mac)
    with cell.changes() as batch:
        batch.put_endpoint(cell.alpha.number, mac, EndpointRecord("", "", "active", ("printers",), 0, {}))
    if time.monotonic() - began < 0.8:
        assert ask(cell, mac) == ACCESS_REJECT
    time.sleep(1.1)
    assert ask(cell, mac) == ACCESS_ACCEPT


def test_other_devices_nases_and_tenants_are_not_limited(cell):
    mac, other = new_mac(), new_mac()
    exhaust(cell, mac)
    ask(cell, mac)
    assert ask(cell, PRINTER) == ACCESS_ACCEPT
    ask(cell, other)
    assert reasons(cell, other) == ["unknown-mac"]
    ask(cell, mac, nas=(NAS_IDENTIFIER, "another-switch"))
    assert reasons(cell, mac)[-1] == "unknown-mac"
    log_in(cell.bravo, mac, mac, SWITCH, station=mac)
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
    assert (seen.codes, seen.eap_failure) == (["Access-Reject"], True)
    assert reasons(cell, mac) == ["certificate-expired"] * LIMIT + ["rate-limited"]


def test_invented_state_does_not_bypass_the_limit(cell):
    """A packet with an invented State bypasses the first check of a conversation."""
    mac = new_mac()
    eap = packet.encode_eap_message(b"\x02\x07\x00\x06\x0d\x00")
    for _ in range(LIMIT + 20):
        assert Nas(cell.alpha).ask(named(mac, mac, (STATE, b"made up, as it were")) + eap)[0] == ACCESS_REJECT
    found = reasons(cell, mac)
    assert found[: LIMIT + 1] == ["eap-failed"] * LIMIT + ["rate-limited"]
    assert len(found) <= LIMIT + 3


def test_rejects_of_a_pending_conversation_count(cell):
    device = Device(cell.alpha.clients["revoked"], VERSIONS[1])
    for _ in range(LIMIT):
        device.visit(cell.alpha, expected=ACCESS_REJECT)
    log_in(cell.alpha, device.mac, "", station=device.mac)
    assert reasons(cell, device.mac) == ["certificate-revoked"] * LIMIT + ["rate-limited"]


def test_all_spellings_of_a_name_count_together(cell):
    """A VPN gateway sends no MAC address, and user names match in any case."""
    for name in ("anna", "ANNA", "Anna", "aNNA", "annA", "anna "):
        assert log_in(cell.alpha, name, "wrong password", (NAS_IDENTIFIER, "vpn-limits"), station=None) == ACCESS_REJECT
    assert cell.decisions()[-1].reason == "rate-limited"
