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
from tests.engine.builders import compare, policy_of, rule
from tests.radius.devices import VERSIONS, Device, is_resumed
from tests.radius.nas import Nas, joined, log_in, named
from tests.radius.supplicant import TLS_1_3, eap_tls, new_mac
from tests.radius.tenants import PASSWORD, PRINTER
from tests.radius.tunnel import Tunnel, login

BAD = b"caf\xe9"
WRITTEN = "caf=E9"
BAD_STATION = b"00-10-A4-23-19-C0:" + BAD
# The attribute Aruba-Essid-Name (vendor 14823, type 5).
BAD_VENDOR = encode_attribute(26, (14823).to_bytes(4, "big") + b"\x05\x06" + BAD)


def mab(cell, *more, raw=b""):
    """The decision about the printer, whose request has more attributes."""
    attributes = named(PRINTER, PRINTER, *more) + raw
    assert Nas(cell.alpha).ask(attributes, password=PRINTER.encode())[0] == ACCESS_ACCEPT
    record = cell.decision()
    assert (record.permitted, record.mac) == (True, PRINTER)
    return record


@pytest.mark.parametrize(
    ("number", "value", "name", "written"),
    [
        (CALLED_STATION_ID, BAD_STATION, "radius.Called-Station-Id", "00-10-A4-23-19-C0:" + WRITTEN),
        (NAS_IDENTIFIER, BAD, "radius.NAS-Identifier", WRITTEN),
        (NAS_PORT_ID, BAD, "radius.NAS-Port-Id", WRITTEN),
        (NAS_PORT_ID, b"\xff" * 253, "radius.NAS-Port-Id", "=FF" * 253),
        (NAS_PORT_ID, b"Gi1/0/1 \xc3\xbc", "radius.NAS-Port-Id", "Gi1/0/1 ü"),
        (NAS_PORT_ID, b"a=41\xff", "radius.NAS-Port-Id", "a=3D41=FF"),
        # Control characters and quotes are text.
        (NAS_PORT_ID, b'a"b\\c\t%{User-Name}\n', "radius.NAS-Port-Id", 'a"b\\c\t%{User-Name}\n'),
    ],
)
def test_mac_authentication_keeps_the_value_escaped(cell, number, value, name, written):
    request = mab(cell, (NAS_PORT, 7), (number, value)).request
    assert (request[name], request["radius.NAS-Port"]) == ((written,), ("7",))


@pytest.mark.parametrize("bad", [encode_attribute(CONNECT_INFO, BAD), BAD_VENDOR], ids=["Connect-Info", "vendor"])
def test_value_that_identifies_nobody_is_omitted(cell, bad):
    request = mab(cell, raw=bad).request
    assert not {"radius.Connect-Info", "radius.Aruba-Essid-Name"} & request.keys()
    assert request["radius.Calling-Station-Id"] == (PRINTER,)


def test_one_invalid_of_two_values_is_kept_escaped(cell):
    stations = (CALLED_STATION_ID, BAD_STATION), (CALLED_STATION_ID, "00-10-A4-23-19-C0:corp")
    assert mab(cell, *stations).request["ssid"] == (WRITTEN,)


@pytest.mark.parametrize(
    ("name", "password", "reason", "identity"),
    [
        (BAD, PASSWORD.encode(), "unknown-user", WRITTEN),
        *(("anna", password, "wrong-password", "anna") for password in (BAD, b"\xff" * 128, b"\x80")),
        *((PRINTER, password, "wrong-mab-password", PRINTER) for password in (BAD, b"\xff" * 128, b"\x80")),
    ],
)
def test_invalid_utf8_name_or_password_is_wrong(cell, name, password, reason, identity):
    assert Nas(cell.alpha).ask(named(name, PRINTER), password=password)[0] == ACCESS_REJECT
    assert (cell.decision().reason, cell.decision().identity) == (reason, identity)


def test_right_password_with_invalid_utf8_is_permitted(cell):
    assert log_in(cell.alpha, "anna", PASSWORD, (NAS_IDENTIFIER, BAD)) == ACCESS_ACCEPT


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


def test_rule_denying_by_an_omitted_value_still_applies(cell):
    deny = rule("bad", compare("radius.Connect-Info", "equals", "BAD"), {"verdict": "deny"})
    cell.set_policy(policy_of(deny, rule("any", {"all": []})))
    # Filter-Id is attribute 11.
    bad, other = (CONNECT_INFO, b"BAD"), (11, b"\xff")
    codes = [
        Nas(cell.alpha).ask(named(PRINTER, PRINTER, *more), password=PRINTER.encode())[0]
        for more in ((), (bad,), (bad, other), (other,))
    ]
    assert codes == [ACCESS_ACCEPT, ACCESS_REJECT, ACCESS_REJECT, ACCESS_REJECT]
    reasons = [record.reason for record in cell.decisions()]
    assert reasons == ["rule-permitted", "rule-denied", "unreadable-text", "unreadable-text"]
    assert cell.decisions()[-1].detail == "Connect-Info"


@pytest.mark.parametrize("client", ["revoked", "expired"])
def test_rejected_device_on_an_invalid_utf8_ssid_has_a_reason(cell, client):
    attributes = encode_attribute(CALLED_STATION_ID, BAD_STATION)
    device = Device(cell.alpha.clients[client], VERSIONS[1], attributes=attributes)
    device.visit(cell.alpha, expected=ACCESS_REJECT)
    assert cell.decision(mac=device.mac).reason == f"certificate-{client}"


def account(cell, *attributes, raw=b""):
    assert Nas(cell.alpha).account(joined(attributes) + raw) is not None
    return dict(cell.accounting()[-1].attributes)


def test_accounting_keeps_the_session_identifiers(cell):
    session = [(USER_NAME, BAD), (ACCT_STATUS_TYPE, 1), (ACCT_SESSION_ID, b"\xff\x01"), (NAS_PORT, 7)]
    assert account(cell, *session, (CALLING_STATION_ID, PRINTER), raw=BAD_VENDOR) == {
        "Acct-Session-Id": "=FF=01",
        "Acct-Status-Type": "Start",
        "Calling-Station-Id": PRINTER,
        "NAS-Port": "7",
        "User-Name": WRITTEN,
    }


def test_accounting_with_one_invalid_of_two_names_is_stored(cell):
    for names in ((BAD, b"anna"), (b"anna", BAD)):
        twice = [(USER_NAME, name) for name in names]
        kept = account(cell, *twice, (ACCT_STATUS_TYPE, 1), (ACCT_SESSION_ID, new_mac()))
        assert kept["User-Name"] == (WRITTEN if names[0] == BAD else "anna")


def test_accounting_on_without_a_name_is_kept(cell):
    """A restarted NAS sends no user name, but its other strings may be invalid."""
    restart = [(ACCT_STATUS_TYPE, 7), (NAS_IDENTIFIER, BAD), (ACCT_SESSION_ID, "0")]
    assert account(cell, *restart, raw=BAD_VENDOR)["NAS-Identifier"] == WRITTEN
