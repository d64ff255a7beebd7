"""MAC authentication: the formats of switches, and the settings of a NAS for its password and for typed names."""

import msgspec
import pytest

from nac.cellformat.replica import keys
from nac.cellformat.replica.records import NasRecord, SecretRecord, mab_password_context
from nac.kit import radius_packet as packet
from radius.module.mab import expected_password
from radius.module.request import AccessRequest
from tests.radius.nas import Nas, ask_mab, named, plain_login, radclient
from tests.radius.supplicant import eap_md5, eap_tls
from tests.radius.tenants import BLOCKED, EXPIRED, PRINTER, STOLEN

OTHER = "02a0c0000099"
SWITCH = ("NAS-Identifier=switch-1", 'NAS-Port-Id="Gi1/0/7"', "Service-Type=Call-Check")
BY_NAME = (f'User-Name="{PRINTER}"', f'User-Password="{PRINTER}"')
STATION = f'Calling-Station-Id="{PRINTER}"'
OF_NAS, NEXT = "secret-of-this-nas-0123", "next-secret-of-this-nas"

each_way = pytest.mark.parametrize("way", ["pap", "chap", "mschapv2", "eap-md5"])


def assert_printers_rule_permits(cell, reply, identity):
    assert reply.code == "Access-Accept", reply.output
    expected = {"Tunnel-Type:1": "VLAN", "Tunnel-Medium-Type:1": "IEEE-802", "Tunnel-Private-Group-Id:1": "20"}
    assert expected.items() | {("Session-Timeout", "3600")} <= reply.attributes.items()
    assert_logged_by_printers_rule(cell, identity)


def assert_logged_by_printers_rule(cell, identity):
    record = cell.decision()
    assert (record.permitted, record.reason, record.method) == (True, "rule-permitted", "mab")
    assert (record.mac, record.identity, record.vlan) == (PRINTER, identity, "20")
    assert (record.rule_id, record.policy_version) == ("printers", 7)


# tests/radius/test_addresses.py has every format.
@pytest.mark.parametrize("written", ["02a0c0000001", "02-A0-C0-00-00-01", "02a0.c000.0001"])
@pytest.mark.parametrize("way", ["pap", "chap", "mschapv2"])
def test_known_mac_address_gets_its_vlan(cell, way, written):
    reply = plain_login(cell.alpha, way, written, written, *SWITCH, station=written)
    assert_printers_rule_permits(cell, reply, written)


@pytest.mark.parametrize("written", ["02a0c0000001", "02-A0-C0-00-00-01"])
def test_mac_by_eap_md5_gets_its_vlan(cell, written):
    # The cell remembers the last EAP type that an address requested, which may be another type.
    assert eap_md5(cell.alpha, written, written, mac=PRINTER).run().accepted
    cell.forget_records()
    seen = eap_md5(cell.alpha, written, written, mac=PRINTER).run()
    assert (seen.accepted, seen.codes, seen.vlans) == (True, ["Access-Challenge", "Access-Accept"], ["20"])
    assert_logged_by_printers_rule(cell, written)
    # Bravo's server certificate is in radiusd's configuration.
    mac = cell.bravo.mac(PRINTER)
    assert eap_md5(cell.bravo, mac, mac, mac=mac).run().vlans == ["20"]


@pytest.mark.parametrize(
    "lines",
    [
        (f'CHAP-Password="{PRINTER}"', "CHAP-Challenge=0x00112233445566778899aabbccddeeff", STATION, *SWITCH),
        ('User-Password="02a0.c000.0001"', 'Calling-Station-Id="02-A0-C0-00-00-01:corp"', *SWITCH),
        (STATION, *SWITCH),
        (f'User-Password="{PRINTER}"', "Service-Type=Call-Check"),
    ],
    ids=["CHAP-Challenge", "three formats and an SSID", "no password", "no station"],
)
def test_other_forms_of_a_mac_request_get_the_vlan(cell, lines):
    assert_printers_rule_permits(cell, radclient(cell.alpha, f'User-Name="{PRINTER}"', *lines), PRINTER)


@pytest.mark.parametrize(
    ("lines", "detail"),
    [
        (("Service-Type=Login-User",), "no Calling-Station-Id, Service-Type Login-User"),
        (('Calling-Station-Id="192.0.2.7"',), "Calling-Station-Id is '192.0.2.7', which is no MAC address"),
        (("NAS-Identifier=switch-1",), "no Calling-Station-Id, no Service-Type"),
    ],
)
def test_typed_mac_name_matches_no_endpoint(cell, lines, detail):
    """A login page or VPN sends a name that a user types. Such a name proves no device."""
    assert radclient(cell.alpha, *BY_NAME, *lines).code == "Access-Reject"
    record = cell.decision()
    assert (record.reason, record.detail, record.mac) == ("no-station", detail, "")


@each_way
def test_name_other_than_the_station_is_rejected(cell, way):
    if way == "eap-md5":
        seen = eap_md5(cell.alpha, PRINTER, PRINTER, mac=OTHER).run()
        assert (seen.codes, seen.eap_failure) == (["Access-Reject"], True)
    else:
        assert plain_login(cell.alpha, way, PRINTER, PRINTER, station=f"{OTHER}:corp").code == "Access-Reject"
    assert (cell.decision().reason, cell.decision().mac) == ("mac-mismatch", OTHER)


@each_way
@pytest.mark.parametrize(
    ("password", "station", "reason"),
    [
        ("other", PRINTER, "wrong-mab-password"),
        (OTHER, PRINTER, "wrong-mab-password"),
        (PRINTER, OTHER, "mac-mismatch"),
    ],
    ids=["password", "other MAC as password", "station"],
)
def test_call_check_excuses_no_wrong_credential(cell, way, password, station, reason):
    """With Call-Check, a MAC request without a password is admitted. A wrong password is not."""
    if way == "eap-md5":
        seen = eap_md5(cell.alpha, PRINTER, password, mac=station, attributes=("6:d:10",)).run()
        assert (seen.codes[-1], "Access-Accept" in seen.codes, seen.eap_failure) == ("Access-Reject", False, True)
    else:
        assert plain_login(cell.alpha, way, PRINTER, password, *SWITCH, station=station).code == "Access-Reject"
    record = cell.decision()
    assert (record.permitted, record.reason, record.mac) == (False, reason, station)


ZEROS, CHALLENGE = f"MS-CHAP2-Response=0x{'00' * 50}", f"MS-CHAP-Challenge=0x{'00' * 16}"


@pytest.mark.parametrize(
    "lines",
    # In the first case, the other credential in the packet is correct.
    [(ZEROS, CHALLENGE, f'User-Password="{PRINTER}"'), (ZEROS, CHALLENGE), ("MS-CHAP2-Response=0x00",), (ZEROS,)],
    ids=range(4),
)
def test_random_mschap_data_is_rejected(cell, lines):
    assert radclient(cell.alpha, BY_NAME[0], STATION, *lines, *SWITCH).code == "Access-Reject"
    assert (cell.decision().permitted, cell.decision().reason) == (False, "wrong-mab-password")


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
    assert ask_mab(cell.alpha, mac) == packet.ACCESS_REJECT
    eap = eap_md5(cell.alpha, mac, mac, mac=mac).run()
    assert (eap.codes, eap.eap_failure) == (["Access-Challenge", "Access-Reject"], True)
    assert [(record.reason, record.method) for record in cell.decisions()] == [(reason, "mab")] * 2


@pytest.mark.parametrize(("mac", "told"), [("02a0c0000099", True), ("00a0c0000099", False)])
def test_unknown_random_address_gets_its_own_detail(cell, mac, told):
    assert ask_mab(cell.alpha, mac) == packet.ACCESS_REJECT
    record = cell.decision()
    assert (record.reason, "uses a random (private) address" in record.detail) == ("unknown-mac", told)


@pytest.mark.parametrize("name", ["02a0c000000", "02a0c000000g", "02:a0:c0:00:00:01:x"])
def test_near_mac_name_is_an_unknown_user(cell, name):
    assert plain_login(cell.alpha, "pap", name, name, station=PRINTER).code == "Access-Reject"
    assert (cell.decision().reason, cell.decision().method) == ("unknown-user", "pap")


def test_unknown_state_does_not_prevent_mab(cell):
    attributes = named(PRINTER, PRINTER, (packet.STATE, b"stale"))
    assert Nas(cell.alpha).ask(attributes, password=PRINTER.encode())[0] == packet.ACCESS_ACCEPT
    assert cell.decision().permitted


def test_record_has_device_place_and_credential(cell):
    called = "00-10-A4-23-19-C0:corp"
    radclient(cell.alpha, *BY_NAME, STATION, *SWITCH, f'Called-Station-Id="{called}"', "NAS-IP-Address=192.0.2.9")
    record, alpha = cell.decision(), cell.alpha
    assert (record.tenant_id, record.slot) == (alpha.tenant_id, alpha.slot)
    assert (record.site_id, record.nas_id, record.policy_id) == (alpha.site_id, alpha.nas_id, alpha.policy_id)
    assert (record.nas_identifier, record.nas_address, record.nas_port) == ("switch-1", "192.0.2.9", "Gi1/0/7")
    expected = {
        "endpoint.group": ("printers",),
        "endpoint.attribute.floor": ("3",),
        "ssid": ("corp",),
        "nas.name": ("Switch 1",),
        "radius.Called-Station-Id": (called,),
    }
    assert expected.items() <= record.request.items()
    assert not [name for name in record.request if "Password" in name or "Authenticator" in name or "Admit" in name]
    assert 0 < record.module_microseconds < 1_000_000


@pytest.fixture
def nas(cell):
    """Function that gives the NAS "configured" these settings."""

    def nas(password="mac", *, text="", by_name=False, own_secrets=()):
        sealed = cell.sealer.seal(text.encode(), mab_password_context("n")) if text else b""
        secrets = tuple(SecretRecord(cell.sealer.seal(secret.encode(), "nas:n"), "nas:n") for secret in own_secrets)
        record = NasRecord("n", "Configured", cell.alpha.site_id, "cisco", secrets=secrets, mab_password=password)
        record = msgspec.structs.replace(record, sealed_mab_password=sealed, mab_by_name=by_name)
        with cell.changes() as batch:
            batch.put_nas(keys.by_identifier(cell.alpha.number, "configured"), record)

    return nas


def is_admitted(cell, way, password):
    """Whether the NAS "configured" gets the printer admitted with this password."""
    if way == "eap-md5":
        return eap_md5(cell.alpha, PRINTER, password, mac=PRINTER, attributes=("32:s:configured",)).run().accepted
    reply = plain_login(cell.alpha, way, PRINTER, password, "NAS-Identifier=configured", station=PRINTER)
    return reply.code == "Access-Accept"


@each_way
@pytest.mark.parametrize(
    ("settings", "right", "wrong", "detail"),
    [
        ({}, PRINTER, ("other", OTHER), "the MAC address"),
        ({"password": "fixed", "text": "NOPASSWORD"}, "NOPASSWORD", (PRINTER, "nopassword"), "its fixed text"),
        ({"password": "empty"}, "", (PRINTER,), "no text"),
        (
            {"password": "secret", "own_secrets": (OF_NAS, NEXT)},
            OF_NAS,
            (PRINTER, "secret-of-alpha-0123456789", NEXT),
            "its shared secret",
        ),
    ],
    ids=["mac", "fixed", "empty", "secret"],
)
def test_only_the_configured_password_is_accepted(cell, nas, way, settings, right, wrong, detail):
    nas(**settings)
    assert is_admitted(cell, way, right)
    for password in wrong:
        cell.forget_records()
        assert not is_admitted(cell, way, password)
        record = cell.decision(permitted=False)
        assert (record.reason, record.method, record.mac) == ("wrong-mab-password", "mab", PRINTER)
        assert record.detail == f"Admit expects {detail} as the password from this NAS"


@pytest.mark.parametrize("way", ["pap", "mschapv2"])
def test_fixed_text_may_contain_special_characters(cell, nas, way):
    text = r"NOPASSWORD \151 %{User-Name} ü"
    nas("fixed", text=text)
    assert is_admitted(cell, way, text)
    assert not is_admitted(cell, way, text.replace(r"\151", "i"))


@pytest.mark.parametrize(("which", "expected"), [("old", "first"), ("new", "second"), ("", "first")])
def test_both_nas_secrets_are_accepted_during_a_rotation(cell, which, expected):
    secrets = tuple(SecretRecord(text.encode(), "nas:n") for text in ("first", "second"))
    nas = NasRecord("n", "N", "", "", secrets=secrets, rotation="r", mab_password="secret")
    proof = ("Admit-Secret", f"slot-0:{which}:r" if which else "slot-0")
    request = AccessRequest((proof, ("Admit-Slot", "slot_0"), ("User-Name", PRINTER)))
    assert expected_password(request, cell.alpha.slot_record(), nas, lambda sealed, _: sealed.decode()) == expected


def test_nas_without_its_own_secret_uses_the_tenant_secret(cell, nas):
    nas("secret")
    cell.set_slot(secrets=(SecretRecord(cell.sealer.seal(cell.alpha.secret.encode(), "slot:s"), "slot:s"),))
    assert is_admitted(cell, "pap", cell.alpha.secret)
    assert not is_admitted(cell, "pap", PRINTER)


@each_way
@pytest.mark.parametrize("form", ["fixed", "secret"])
def test_password_unknown_to_the_cell_is_rejected(cell, nas, form, way):
    nas(form)
    for password in ("", PRINTER, "other"):
        assert not is_admitted(cell, way, password)
    assert {record.permitted for record in cell.decisions()} == {False}


def test_certificate_device_may_use_its_mac_as_identity(cell, nas):
    nas("fixed", text="NOPASSWORD")
    device = eap_tls(cell.alpha, cell.alpha.clients["laptop"], identity=PRINTER, mac=PRINTER)
    assert device.run().accepted


def test_setting_of_one_nas_affects_no_other(cell, nas):
    nas("fixed", text="NOPASSWORD", by_name=True)
    for lines in ((), ("NAS-Identifier=switch-1",)):
        assert plain_login(cell.alpha, "pap", PRINTER, PRINTER, *lines, station=PRINTER).code == "Access-Accept"
    cell.forget_records()
    assert radclient(cell.alpha, *BY_NAME, "NAS-Identifier=switch-1").code == "Access-Reject"
    assert cell.decision().reason == "no-station"


class TestByName:
    """Requests without Calling-Station-Id and Service-Type. A user may have typed the name."""

    LINES = (*BY_NAME, "NAS-Identifier=configured")

    def test_name_is_the_device_if_the_nas_is_set_so(self, cell, nas):
        nas(by_name=True)
        assert radclient(cell.alpha, *self.LINES).code == "Access-Accept"
        assert cell.decision().mac == PRINTER

    @pytest.mark.parametrize("more", ["Service-Type=Login-User", 'Calling-Station-Id="192.0.2.7"', ""])
    def test_name_is_not_the_device_by_default(self, cell, nas, more):
        nas(by_name=bool(more))
        assert radclient(cell.alpha, *self.LINES, *filter(None, [more])).code == "Access-Reject"
        assert (cell.decision().reason, cell.decision().mac) == ("no-station", "")

    def test_chap_name_is_the_device_if_the_nas_is_set_so(self, cell, nas):
        """The decision is made after rlm_chap compared the password, not at the first packet."""
        for by_name, code in ((False, "Access-Reject"), (True, "Access-Accept")):
            nas(by_name=by_name)
            lines = (BY_NAME[0], f'CHAP-Password="{PRINTER}"', "NAS-Identifier=configured")
            assert radclient(cell.alpha, *lines).code == code
