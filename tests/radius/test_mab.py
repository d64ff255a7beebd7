"""MAC addresses in every format that switches send."""

import pytest

from nac.kit import radius_packet as packet
from tests.radius import mschap
from tests.radius.nas import Nas, Reply, radclient
from tests.radius.supplicant import eap_md5
from tests.radius.tenants import BLOCKED, EXPIRED, PRINTER, STOLEN

NOTATIONS = {
    "plain": "02a0c0000001",
    "plain-capitals": "02A0C0000001",
    "colons": "02:a0:c0:00:00:01",
    "hyphens-capitals": "02-A0-C0-00-00-01",
    "cisco": "02a0.c000.0001",
    "one-hyphen": "02a0c0-000001",
    "blanks": "02 a0 c0 00 00 01",
}
OTHER = "02a0c0000099"
SWITCH = ("NAS-Identifier=switch-1", 'NAS-Port-Id="Gi1/0/7"', "Service-Type=Call-Check")

each_notation = pytest.mark.parametrize("written", NOTATIONS.values(), ids=NOTATIONS)
some_notations = pytest.mark.parametrize("written", ["02a0c0000001", "02-A0-C0-00-00-01"])


def pap(name, password, calling=PRINTER):
    return f'User-Name="{name}"', f'User-Password="{password}"', f'Calling-Station-Id="{calling}"', *SWITCH


def chap(name, password, *more, calling=PRINTER):
    return f'User-Name="{name}"', f'CHAP-Password="{password}"', f'Calling-Station-Id="{calling}"', *SWITCH, *more


def assert_on_printer_vlan(reply: Reply):
    assert reply.code == "Access-Accept", reply.output
    assert reply.attributes["Tunnel-Type:1"] == "VLAN"
    assert reply.attributes["Tunnel-Medium-Type:1"] == "IEEE-802"
    assert reply.attributes["Tunnel-Private-Group-Id:1"] == "20"
    assert reply.attributes["Session-Timeout"] == "3600"


def assert_permitted_by_printers_rule(cell, identity):
    record = cell.decision()
    assert (record.permitted, record.reason, record.method) == (True, "rule-permitted", "mab")
    assert (record.mac, record.identity, record.vlan) == (PRINTER, identity, "20")
    assert (record.rule_id, record.policy_version) == ("printers", 7)


@each_notation
def test_mac_by_pap_gets_its_vlan(cell, written):
    assert_on_printer_vlan(radclient(cell.alpha, *pap(written, written, calling=written)))
    assert_permitted_by_printers_rule(cell, written)


@some_notations
def test_mac_by_chap_gets_its_vlan(cell, written):
    assert_on_printer_vlan(radclient(cell.alpha, *chap(written, written, calling=written)))
    assert_permitted_by_printers_rule(cell, written)


def test_mac_by_chap_with_a_challenge_attribute_gets_its_vlan(cell):
    reply = radclient(cell.alpha, *chap(PRINTER, PRINTER, "CHAP-Challenge=0x00112233445566778899aabbccddeeff"))
    assert_on_printer_vlan(reply)
    assert_permitted_by_printers_rule(cell, PRINTER)


@some_notations
def test_mac_by_eap_md5_gets_its_vlan(cell, written):
    # The cell remembers the last EAP type that an address requested, which may be another type.
    assert eap_md5(cell.alpha, written, written, mac=PRINTER).run().accepted
    cell.forget_records()
    seen = eap_md5(cell.alpha, written, written, mac=PRINTER).run()
    assert seen.accepted
    assert seen.codes == ["Access-Challenge", "Access-Accept"]
    assert seen.vlans == ["20"]
    assert_permitted_by_printers_rule(cell, written)


def test_mac_by_eap_md5_with_a_preset_certificate_gets_its_vlan(cell):
    mac = cell.bravo.mac(PRINTER)
    assert eap_md5(cell.bravo, mac, mac, mac=mac).run().vlans == ["20"]


def test_name_and_password_may_use_different_mac_formats(cell):
    assert_on_printer_vlan(radclient(cell.alpha, *pap("02-A0-C0-00-00-01", "02a0.c000.0001")))


def test_call_check_without_password_gets_its_vlan(cell):
    reply = radclient(cell.alpha, f'User-Name="{PRINTER}"', f'Calling-Station-Id="{PRINTER}"', *SWITCH)
    assert_on_printer_vlan(reply)


def test_name_replaces_a_missing_calling_station(cell):
    reply = radclient(cell.alpha, f'User-Name="{PRINTER}"', f'User-Password="{PRINTER}"', "Service-Type=Call-Check")
    assert_on_printer_vlan(reply)
    assert cell.decision().mac == PRINTER


@pytest.mark.parametrize(
    ("lines", "detail"),
    [
        (("Service-Type=Login-User",), "no Calling-Station-Id, Service-Type Login-User"),
        (('Calling-Station-Id="192.0.2.7"',), "Calling-Station-Id is '192.0.2.7', which is no MAC address"),
        ((), "no Calling-Station-Id, no Service-Type"),
        (("NAS-Identifier=switch-1",), "no Calling-Station-Id, no Service-Type"),
    ],
)
def test_typed_mac_name_matches_no_endpoint(cell, lines, detail):
    """A login page or VPN sends a name that a user types. Such a name proves no device."""
    reply = radclient(cell.alpha, f'User-Name="{PRINTER}"', f'User-Password="{PRINTER}"', *lines)
    assert reply.code == "Access-Reject"
    record = cell.decision()
    assert (record.reason, record.detail, record.mac) == ("no-station", detail, "")


@pytest.mark.parametrize("station", ["02-A0-C0-00-00-01:corp", "02a0c0000001:corp", "02a0.c000.0001:a:b"])
def test_ssid_after_the_calling_station_is_ignored(cell, station):
    assert_on_printer_vlan(radclient(cell.alpha, *pap(PRINTER, PRINTER, calling=station)))
    assert cell.decision().mac == PRINTER
    cell.forget_records()
    assert radclient(cell.alpha, *pap(OTHER, OTHER, calling=station)).code == "Access-Reject"
    assert cell.decision().reason == "mac-mismatch"


@pytest.mark.parametrize(
    "lines", [pap(PRINTER, "other"), pap(PRINTER, OTHER), chap(PRINTER, "other"), chap(PRINTER, OTHER)]
)
def test_password_other_than_the_mac_is_rejected(cell, lines):
    assert radclient(cell.alpha, *lines).code == "Access-Reject"
    record = cell.decision()
    assert (record.permitted, record.reason, record.method) == (False, "wrong-mab-password", "mab")


class TestMsChap:
    """MAC addresses by MS-CHAP. As for users, rlm_mschap compares the response."""

    @pytest.mark.parametrize("written", ["02a0c0000001", "02-A0-C0-00-00-01"])
    def test_correct_answer_gets_its_vlan(self, cell, written):
        lines = mschap.attributes_v2(written, written)[1:]
        reply = radclient(cell.alpha, f'User-Name="{written}"', f'Calling-Station-Id="{written}"', *lines, *SWITCH)
        assert_on_printer_vlan(reply)
        assert_permitted_by_printers_rule(cell, written)

    @pytest.mark.parametrize("service", [("Service-Type=Call-Check",), ()])
    def test_wrong_answer_is_rejected(self, cell, service):
        lines = mschap.attributes_v2(PRINTER, "other")[1:]
        reply = radclient(cell.alpha, f'User-Name="{PRINTER}"', f'Calling-Station-Id="{PRINTER}"', *lines, *service)
        assert reply.code == "Access-Reject"
        record = cell.decision()
        assert (record.permitted, record.reason, record.method) == (False, "wrong-mab-password", "mab")
        assert record.detail == "Admit expects the MAC address as the password from this NAS"

    @pytest.mark.parametrize(
        "lines",
        [
            # The other credential in the packet is correct.
            (f"MS-CHAP2-Response=0x{'00' * 50}", f"MS-CHAP-Challenge=0x{'00' * 16}", f'User-Password="{PRINTER}"'),
            (f"MS-CHAP2-Response=0x{'00' * 50}", f"MS-CHAP-Challenge=0x{'00' * 16}"),
            ("MS-CHAP2-Response=0x00",),
            (f"MS-CHAP2-Response=0x{'00' * 50}",),
        ],
        ids=range(4),
    )
    def test_random_data_is_rejected(self, cell, lines):
        reply = radclient(cell.alpha, f'User-Name="{PRINTER}"', f'Calling-Station-Id="{PRINTER}"', *lines, *SWITCH)
        assert reply.code == "Access-Reject"
        assert (cell.decision().permitted, cell.decision().reason) == (False, "wrong-mab-password")


def test_eap_md5_with_another_password_is_rejected(cell):
    seen = eap_md5(cell.alpha, PRINTER, "other", mac=PRINTER).run()
    assert seen.codes == ["Access-Challenge", "Access-Reject"]
    assert seen.eap_failure
    record = cell.decision()
    assert (record.permitted, record.reason, record.method) == (False, "wrong-mab-password", "mab")


@pytest.mark.parametrize("lines", [pap(PRINTER, PRINTER, calling=OTHER), chap(PRINTER, PRINTER, calling=OTHER)])
def test_name_other_than_the_calling_station_is_rejected(cell, lines):
    assert radclient(cell.alpha, *lines).code == "Access-Reject"
    assert (cell.decision().reason, cell.decision().mac) == ("mac-mismatch", OTHER)


def test_eap_md5_name_other_than_the_station_is_rejected(cell):
    seen = eap_md5(cell.alpha, PRINTER, PRINTER, mac=OTHER).run()
    assert seen.codes == ["Access-Reject"]
    assert seen.eap_failure
    assert cell.decision().reason == "mac-mismatch"


@pytest.mark.parametrize(
    ("mac", "reason"),
    [
        (BLOCKED, "endpoint-blocked"),
        (EXPIRED, "endpoint-expired"),
        (STOLEN, "pinned-deny"),
        ("02a0c0000098", "unknown-mac"),
    ],
)
def test_rejected_device_gets_a_reason(cell, mac, reason):
    assert radclient(cell.alpha, *pap(mac, mac, calling=mac)).code == "Access-Reject"
    eap = eap_md5(cell.alpha, mac, mac, mac=mac).run()
    assert eap.codes == ["Access-Challenge", "Access-Reject"]
    assert eap.eap_failure
    by_pap, by_eap = cell.decisions()
    assert by_pap.reason == by_eap.reason == reason
    assert by_pap.method == by_eap.method == "mab"


@pytest.mark.parametrize(("mac", "told"), [("02a0c0000099", True), ("00a0c0000099", False)])
def test_unknown_random_address_gets_its_own_reason(cell, mac, told):
    assert radclient(cell.alpha, *pap(mac, mac, calling=mac)).code == "Access-Reject"
    record = cell.decision()
    assert (record.reason, "uses a random (private) address" in record.detail) == ("unknown-mac", told)


@pytest.mark.parametrize("name", ["02a0c000000", "02a0c00000011", "02a0c000000g", "02:a0:c0:00:00:01:x"])
def test_near_mac_name_is_an_unknown_user(cell, name):
    assert radclient(cell.alpha, *pap(name, name)).code == "Access-Reject"
    record = cell.decision()
    assert (record.reason, record.method) == ("unknown-user", "pap")


def test_unknown_state_does_not_prevent_mab(cell):
    attributes = packet.encode_attribute(packet.USER_NAME, PRINTER) + packet.encode_attribute(
        packet.CALLING_STATION_ID, PRINTER
    )
    reply = Nas(cell.alpha).ask(attributes + packet.encode_attribute(packet.STATE, b"stale"), password=PRINTER.encode())
    assert reply[0] == packet.ACCESS_ACCEPT
    assert cell.decision().permitted


def test_record_has_device_place_and_credential(cell):
    called = "00-10-A4-23-19-C0:corp"
    radclient(cell.alpha, *pap(PRINTER, PRINTER), f'Called-Station-Id="{called}"', "NAS-IP-Address=192.0.2.9")
    record = cell.decision()
    alpha = cell.alpha
    assert (record.tenant_id, record.slot) == (alpha.tenant_id, alpha.slot)
    assert (record.site_id, record.nas_id, record.policy_id) == (alpha.site_id, alpha.nas_id, alpha.policy_id)
    assert (record.nas_identifier, record.nas_address, record.nas_port) == ("switch-1", "192.0.2.9", "Gi1/0/7")
    assert record.request["endpoint.group"] == ("printers",)
    assert record.request["endpoint.attribute.floor"] == ("3",)
    assert record.request["ssid"] == ("corp",)
    assert record.request["nas.name"] == ("Switch 1",)
    assert record.request["radius.Called-Station-Id"] == (called,)
    assert not [name for name in record.request if "Password" in name or "Authenticator" in name or "Admit" in name]
    assert 0 < record.module_microseconds < 1_000_000
