"""Values that are not UTF-8. An SSID is any 32 octets, and old switches send any configured octets."""

import pytest

from nac.kit.radius_packet import (
    ACCESS_ACCEPT,
    ACCESS_REJECT,
    ACCT_SESSION_ID,
    ACCT_STATUS_TYPE,
    CALLED_STATION_ID,
    CALLING_STATION_ID,
    CONNECT_INFO,
    NAS_IDENTIFIER,
    NAS_PORT,
    NAS_PORT_ID,
    USER_NAME,
    encode_attribute,
)
from tests.radius.devices import VERSIONS, Device, is_resumed
from tests.radius.nas import Nas, joined
from tests.radius.supplicant import TLS_1_3, eap_tls, new_mac
from tests.radius.tenants import PASSWORD, PRINTER
from tests.radius.tunnel import Tunnel, login

BAD = b"caf\xe9"
WRITTEN = "caf=E9"
BAD_STATION = b"00-10-A4-23-19-C0:" + BAD
# The attribute Aruba-Essid-Name (vendor 14823, type 5).
BAD_VENDOR = encode_attribute(26, (14823).to_bytes(4, "big") + b"\x05\x06" + BAD)


@pytest.mark.parametrize(
    ("number", "value", "name", "written"),
    [
        (CALLED_STATION_ID, BAD_STATION, "radius.Called-Station-Id", "00-10-A4-23-19-C0:" + WRITTEN),
        (NAS_IDENTIFIER, BAD, "radius.NAS-Identifier", WRITTEN),
        (NAS_PORT_ID, BAD, "radius.NAS-Port-Id", WRITTEN),
        (NAS_PORT_ID, b"\xff" * 253, "radius.NAS-Port-Id", "=FF" * 253),
        (NAS_PORT_ID, b"Gi1/0/1 \xc3\xbc", "radius.NAS-Port-Id", "Gi1/0/1 ü"),
        (NAS_PORT_ID, b"a=41\xff", "radius.NAS-Port-Id", "a=3D41=FF"),
    ],
)
def test_mac_authentication_keeps_the_value_escaped(cell, number, value, name, written):
    attributes = joined([(USER_NAME, PRINTER), (CALLING_STATION_ID, PRINTER), (NAS_PORT, 7), (number, value)])
    assert Nas(cell.alpha).ask(attributes, password=PRINTER.encode())[0] == ACCESS_ACCEPT
    record = cell.decision()
    assert (record.permitted, record.mac) == (True, PRINTER)
    assert record.request[name] == (written,)
    assert record.request["radius.NAS-Port"] == ("7",)


@pytest.mark.parametrize("bad", [encode_attribute(CONNECT_INFO, BAD), BAD_VENDOR], ids=["Connect-Info", "vendor"])
def test_value_that_identifies_nobody_is_omitted(cell, bad):
    attributes = joined([(USER_NAME, PRINTER), (CALLING_STATION_ID, PRINTER)]) + bad
    assert Nas(cell.alpha).ask(attributes, password=PRINTER.encode())[0] == ACCESS_ACCEPT
    names = cell.decision().request
    assert "radius.Connect-Info" not in names
    assert "radius.Aruba-Essid-Name" not in names
    assert names["radius.Calling-Station-Id"] == (PRINTER,)


def test_invalid_utf8_user_name_is_an_unknown_user(cell):
    mac = new_mac()
    reply = Nas(cell.alpha).ask(joined([(USER_NAME, BAD), (CALLING_STATION_ID, mac)]), password=PASSWORD.encode())
    assert reply[0] == ACCESS_REJECT
    record = cell.decision(mac=mac)
    assert (record.reason, record.identity) == ("unknown-user", WRITTEN)


def test_right_password_with_invalid_utf8_is_permitted(cell):
    attributes = joined([(USER_NAME, "anna"), (NAS_IDENTIFIER, BAD)])
    assert Nas(cell.alpha).ask(attributes, password=PASSWORD.encode())[0] == ACCESS_ACCEPT


@pytest.mark.parametrize(("name", "reason"), [("anna", "wrong-password"), (PRINTER, "wrong-mab-password")])
@pytest.mark.parametrize("password", [BAD, b"\xff" * 128, b"\x80"])
def test_invalid_utf8_password_is_wrong(cell, name, reason, password):
    attributes = joined([(USER_NAME, name), (CALLING_STATION_ID, PRINTER)])
    assert Nas(cell.alpha).ask(attributes, password=password)[0] == ACCESS_REJECT
    record = cell.decision()
    assert (record.reason, record.identity) == (reason, name)


def test_request_without_a_name_is_logged(cell):
    assert Nas(cell.alpha).ask(joined([(NAS_PORT_ID, BAD), (CONNECT_INFO, BAD)]))[0] == ACCESS_REJECT
    record = cell.decision()
    assert (record.reason, record.nas_port) == ("no-credentials", WRITTEN)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("slug", ["alpha", "bravo"])
def test_device_on_an_invalid_utf8_ssid_is_permitted(cell, slug, version):
    tenant = cell.tenants[slug]
    attributes = encode_attribute(CALLED_STATION_ID, BAD_STATION) + BAD_VENDOR
    device = Device(tenant.clients["laptop"], version, attributes=attributes)
    device.visit(tenant, vlan="10")
    assert is_resumed(device.visit(tenant, vlan="10"))
    for record in cell.decisions(mac=device.mac):
        assert (record.permitted, record.method) == (True, "eap-tls")
        assert record.request["ssid"] == (WRITTEN,)
    (sent,) = cell.certificates_sent(mac=device.mac)
    assert sent.conversation == cell.decisions(mac=device.mac)[0].conversation


@pytest.mark.parametrize("identity", ["CORP\\laptop", "host/lap+1", "müller@x", "anonymous%{x}@x", "x=y", "a\"b'c"])
def test_any_identity_is_permitted_on_an_invalid_utf8_ssid(cell, identity):
    seen = eap_tls(
        cell.alpha, cell.alpha.clients["laptop"], TLS_1_3, identity=identity, attributes=(f"30:x:{BAD_STATION.hex()}",)
    ).run()
    assert seen.accepted
    record = cell.decision()
    assert record.identity == "laptop"
    assert ("User-Name", identity) in record.pairs


@pytest.mark.usefixtures("everything_offered")
@pytest.mark.parametrize("number", [NAS_IDENTIFIER, CALLING_STATION_ID])
@pytest.mark.parametrize("value", [BAD, b"\xff" * 253, b'\xff\0"\\'])
def test_eap_with_invalid_utf8_nas_or_station_is_permitted(cell, number, value):
    assert converse_in_ttls(cell, number, value, value) == ACCESS_ACCEPT
    assert converse_in_ttls(cell, number, value, value[:-1]) == ACCESS_REJECT


def converse_in_ttls(cell, number, at_first, later):
    """The response to the password packet, whose value differs from the value at the start of the conversation."""
    tunnel = Tunnel(cell.alpha)

    def send_with(value):
        if number == CALLING_STATION_ID:
            tunnel.mac = value
        else:
            tunnel.more = encode_attribute(number, value)

    send_with(at_first)
    tunnel.open()
    send_with(later)
    return tunnel.say(login(b"anna", PASSWORD.encode()))


def test_rule_denying_by_an_omitted_value_still_applies(cell, replica):
    deny = {"attribute": "radius.Connect-Info", "operator": "equals", "value": "BAD"}
    document = {
        "rules": [
            {"id": "bad", "name": "bad", "when": deny, "then": {"verdict": "deny"}},
            {"id": "any", "name": "any", "when": {"all": []}, "then": {"verdict": "permit", "vlan": "20"}},
        ]
    }
    with replica.begin() as batch:
        batch.put_policy(cell.alpha.number, cell.alpha.policy_record(document, version=8))
    asked = joined([(USER_NAME, PRINTER), (CALLING_STATION_ID, PRINTER)])
    # Filter-Id is attribute 11.
    bad, other = encode_attribute(CONNECT_INFO, b"BAD"), encode_attribute(11, b"\xff")
    outcomes = []
    for more in (b"", bad, bad + other, other):
        verdict = Nas(cell.alpha).ask(asked + more, password=PRINTER.encode())[0]
        outcomes.append((verdict, cell.decisions()[-1].reason))
    assert outcomes == [
        (ACCESS_ACCEPT, "rule-permitted"),
        (ACCESS_REJECT, "rule-denied"),
        (ACCESS_REJECT, "unreadable-text"),
        (ACCESS_REJECT, "unreadable-text"),
    ]
    assert cell.decisions()[-1].detail == "Connect-Info"


@pytest.mark.parametrize("client", ["revoked", "expired"])
def test_rejected_device_on_an_invalid_utf8_ssid_has_a_reason(cell, client):
    attributes = encode_attribute(CALLED_STATION_ID, BAD_STATION)
    device = Device(cell.alpha.clients[client], VERSIONS[1], attributes=attributes)
    device.visit(cell.alpha, expected=ACCESS_REJECT)
    assert cell.decision(mac=device.mac).reason == f"certificate-{client}"


def test_accounting_keeps_the_session_identifiers(cell):
    session = joined([(USER_NAME, BAD), (ACCT_STATUS_TYPE, 1), (ACCT_SESSION_ID, b"\xff\x01"), (NAS_PORT, 7)])
    assert Nas(cell.alpha).account(session + encode_attribute(CALLING_STATION_ID, PRINTER) + BAD_VENDOR) is not None
    (record,) = cell.accounting()
    assert sorted(record.attributes) == [
        ("Acct-Session-Id", "=FF=01"),
        ("Acct-Status-Type", "Start"),
        ("Calling-Station-Id", PRINTER),
        ("NAS-Port", "7"),
        ("User-Name", WRITTEN),
    ]


def test_accounting_with_one_invalid_of_two_names_is_stored(cell):
    for names in ((BAD, b"anna"), (b"anna", BAD)):
        twice = joined([(USER_NAME, name) for name in names])
        session = joined([(ACCT_STATUS_TYPE, 1), (ACCT_SESSION_ID, new_mac()), (CALLING_STATION_ID, PRINTER)])
        assert Nas(cell.alpha).account(twice + session) is not None
        assert dict(cell.accounting()[-1].attributes)["User-Name"] == (WRITTEN if names[0] == BAD else "anna")


def test_mac_request_with_one_invalid_of_two_names_is_logged(cell):
    twice = joined([(CALLED_STATION_ID, BAD_STATION), (CALLED_STATION_ID, "00-10-A4-23-19-C0:corp")])
    attributes = joined([(USER_NAME, PRINTER), (CALLING_STATION_ID, PRINTER)]) + twice
    assert Nas(cell.alpha).ask(attributes, password=PRINTER.encode())[0] == ACCESS_ACCEPT
    assert cell.decision().request["ssid"] == (WRITTEN,)


def test_accounting_on_without_a_name_is_kept(cell):
    """A restarted NAS sends no user name, but its other strings may be invalid."""
    restart = joined([(ACCT_STATUS_TYPE, 7), (NAS_IDENTIFIER, BAD), (ACCT_SESSION_ID, "0")])
    assert Nas(cell.alpha).account(restart + BAD_VENDOR) is not None
    (record,) = cell.accounting()
    assert dict(record.attributes)["NAS-Identifier"] == WRITTEN


def test_control_characters_and_quotes_are_kept(cell):
    odd = 'a"b\\c\t%{User-Name}\n'
    attributes = joined([(USER_NAME, PRINTER), (CALLING_STATION_ID, PRINTER), (NAS_PORT_ID, odd)])
    assert Nas(cell.alpha).ask(attributes, password=PRINTER.encode())[0] == ACCESS_ACCEPT
    assert cell.decision().nas_port == odd
