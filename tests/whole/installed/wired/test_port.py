"""A port that authenticates with Admit: opened with its VLAN, kept closed, reauthenticated, or closed on time-out."""

import pytest

from tests.polling import until
from tests.radius.supplicant import PEAP, TLS_1_2, TLS_1_3, eap_password, eap_tls
from tests.whole.installed.wired.office import LAB_VLAN, OFFICE_VLAN, PASSWORD, PERSON, SESSION_SECONDS

pytestmark = pytest.mark.early

# Values with tag 1 (RFC 2868 3.1, 3.2): VLAN, IEEE-802.
_VLAN_TYPE, _ETHERNET = "0100000d", "01000006"


def tagged(text):
    """A tagged string (RFC 2868 3.6) in the format that hostapd prints."""
    return "01" + text.encode().hex()


@pytest.mark.parametrize("version", [TLS_1_2, TLS_1_3])
def test_device_is_admitted_to_its_vlan_and_accounted_for(office, switch, connect, version):
    device = connect(eap_tls(office, office.clients["laptop"], version, identity="anonymous"))
    until(lambda: switch.is_open(device.mac), "the port is open")
    until(lambda: device.is_authorised, "the device knows")
    assert device.status()["eap_tls_version"].endswith(version)
    assert switch.vlan(device.mac) == OFFICE_VLAN
    [accept] = switch.received("Access-Accept")
    assert accept.values["Tunnel-Type"] == _VLAN_TYPE
    assert accept.values["Tunnel-Medium-Type"] == _ETHERNET
    assert accept.values["Tunnel-Private-Group-Id"] == tagged(OFFICE_VLAN)
    [decision] = office.decisions(device.mac)
    assert (decision["permitted"], decision["rule_id"], decision["vlan"]) == (True, "laptop", OFFICE_VLAN)
    assert (decision["tls_version"], decision["resumed"]) == (version, False)

    device.log_off()
    until(lambda: not switch.is_open(device.mac), "the port is closed")
    start, stop = office.accounting(device.mac, count=2)
    assert (start["status_type"], stop["status_type"]) == ("Start", "Stop")
    assert start["session_id"] == stop["session_id"]
    assert stop["terminate_cause"] == "User-Request"
    assert office.open_sessions(device.mac) == 0
    switch.stop()
    until(lambda: office.switch_accounting()[-2:] == ["Accounting-On", "Accounting-Off"], "the switch has said goodbye")


def test_user_with_a_password_is_on_their_groups_vlan(office, switch, connect):
    """One method, because tests/radius/test_tunnels.py covers each."""
    device = connect(eap_password(office, PEAP, PERSON, PASSWORD, TLS_1_3))
    until(lambda: switch.is_open(device.mac), "the port is open")
    until(lambda: device.is_authorised, "the device knows")
    assert switch.vlan(device.mac) == LAB_VLAN
    [decision] = office.decisions(device.mac)
    assert (decision["permitted"], decision["rule_id"], decision["method"]) == (True, "staff", "peap-mschapv2")
    assert (decision["identity"], decision["tls_version"]) == (PERSON, TLS_1_3)


def test_device_without_a_matching_rule_keeps_the_port_closed(office, switch, connect):
    device = connect(eap_tls(office, office.clients["stranger"]))
    [decision] = office.decisions(device.mac)
    assert (decision["permitted"], decision["reason"]) == (False, "fallback-denied")
    until(lambda: switch.received("Access-Reject"), "the switch has heard")
    until(lambda: device.has_failed, "the device has heard")
    assert not switch.is_open(device.mac)
    assert not device.is_authorised
    [reject] = switch.received("Access-Reject")
    assert "Tunnel-Private-Group-Id" not in reject.values
    switch.stop()
    until(lambda: office.switch_accounting()[-1] == "Accounting-Off", "all accounting is there")
    assert office.accounting(device.mac, count=0) == []


def test_port_without_the_policys_vlan_stays_closed(office, switch, connect):
    device = connect(eap_tls(office, office.clients["traveller"]))
    [decision] = office.decisions(device.mac)
    assert (decision["permitted"], decision["vlan"]) == (True, "99")
    until(lambda: "Invalid VLAN 99 received from RADIUS server" in switch.log(), "the switch has read the VLAN")
    assert not switch.is_open(device.mac)


def test_reauthentication_resumes_and_revocation_disconnects(office, switch, connect):
    """A resumption omits the handshake, but not the decision."""
    device = connect(eap_tls(office, office.clients["revoked"], TLS_1_3))
    first, second = office.decisions(device.mac, count=2)[:2]
    assert (first["permitted"], first["resumed"]) == (True, False)
    assert (second["permitted"], second["resumed"], second["tls_version"]) == (True, True, TLS_1_3)
    until(lambda: device.status().get("tls_session_reused") == "1", "the device has resumed")
    assert switch.is_open(device.mac)
    assert switch.vlan(device.mac) == LAB_VLAN
    assert switch.station(device.mac)["dot1xAuthReAuthPeriod"] == str(SESSION_SECONDS)

    office.revoke("revoked")
    until(lambda: not switch.is_open(device.mac), "the port is closed")
    # The switch was requested to end the session, or has already reauthenticated the device.
    device.join()
    until(lambda: not office.decisions(device.mac)[-1]["permitted"], "it was refused")
    rejected = next(row for row in office.decisions(device.mac, count=3) if not row["permitted"])
    assert rejected["reason"] == "certificate-revoked"


@pytest.mark.long
def test_port_closes_when_the_session_timeout_is_over(office, switch, connect):
    device = connect(eap_tls(office, office.clients["visitor"]))
    start, stop = office.accounting(device.mac, count=2)[:2]
    assert (start["status_type"], stop["status_type"]) == ("Start", "Stop")
    assert stop["terminate_cause"] == "Session-Timeout"
    [accept, *_] = switch.received("Access-Accept")
    assert accept.values["Session-Timeout"] == str(SESSION_SECONDS)


@pytest.mark.long
def test_pulled_cable_closes_the_port_until_reconnection(office, switch, connect, cable):
    """The switch detects it at reauthentication, because hostapd's driver does not watch the carrier."""
    device = connect(eap_tls(office, office.clients["kiosk"]))
    until(lambda: switch.is_open(device.mac), "the port is open")
    cable.pull()
    until(lambda: not switch.is_open(device.mac), "the port is closed", seconds=120)
    stop = office.accounting(device.mac, count=2)[-1]
    assert stop["status_type"] == "Stop"
    cable.plug_in()
    device.join()
    until(lambda: switch.is_open(device.mac), "the port is open again", seconds=120)


@pytest.mark.long
def test_certificate_lost_on_the_way_is_reported(office, switch, connect, device_namespace):
    """The path carries only small frames. radiusd's fragments pass, but the device sends full-size fragments, which are
    lost.
    """
    device_namespace.run("ip", "link", "set", "eth0", "mtu", "1100")
    device = connect(eap_tls(office, office.clients["laptop"]))
    decision = office.decisions(device.mac, seconds=120)[0]
    assert (decision["permitted"], decision["reason"]) == (False, "conversation-abandoned")
    assert not switch.is_open(device.mac)
