"""Values that are exchanged with cells: authentication methods of a tenant, and attributes with credentials."""

import re

import pytest

from nac.cellformat.methods import DEFAULT_METHODS, METHODS, WEAK_METHODS, parse_offer
from nac.cellformat.packet_values import is_recordable, is_visible
from nac.kit.errors import InvalidInput
from tests.factories.dictionary import installed_dictionary

_SUSPECT = re.compile(r"passw|(?<!by)pass$|psk|pmk|\bmsk|secret|eapol|\botp\b", re.IGNORECASE)


def methods(text):
    return parse_offer(methods=text, tls_versions=None).methods


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        ("eap-tls", ("eap-tls",)),
        (" EAP-TLS , mab,", ("mab", "eap-tls")),
        ("eap-ttls", ("eap-ttls-pap", "eap-ttls-mschapv2")),
        ("eap-ttls,eap-ttls-pap,pap", ("eap-ttls-pap", "eap-ttls-mschapv2", "pap")),
        (",".join(reversed(METHODS)), METHODS),
    ],
)
def test_methods_are_accepted_in_any_order(text, parsed):
    assert methods(text) == parsed


@pytest.mark.parametrize("text", ["", ",", " , "])
def test_empty_methods_are_rejected(text):
    message = r"^methods: At least one value is required\. Use one or more of: mab, eap-tls,"
    with pytest.raises(InvalidInput, match=message):
        methods(text)


def test_all_unknown_methods_are_listed():
    with pytest.raises(InvalidInput) as caught:
        parse_offer(methods="eap-tls,peap,leap", tls_versions="1.1,1.3,ssl")
    assert str(caught.value) == (
        f"methods: Unknown values 'peap', 'leap'. Use one or more of: {', '.join(METHODS)}. "
        "tls_versions: Unknown values '1.1', 'ssl'. Use one or more of: 1.2, 1.3."
    )


def test_omitted_methods_are_unchanged():
    assert parse_offer(methods=None, tls_versions="1.3") == (None, ("1.3",))
    assert parse_offer(methods="mab", tls_versions=None) == (("mab",), None)
    assert set(METHODS) - set(DEFAULT_METHODS) == set(WEAK_METHODS)


def test_encrypted_or_secret_sounding_attributes_are_not_stored():
    stored = [each for each in installed_dictionary().attributes.values() if is_recordable(each.name)]
    assert stored
    assert [each.name for each in stored if each.encrypt or _SUSPECT.search(each.name)] == []


@pytest.mark.parametrize(
    "name",
    [
        *("Lucent-Send-Passwd", "Mikrotik-Wireless-PSK", "Extreme-PPSK-PMK", "Motorola-WiMAX-MIP-KEY", "WiMAX-MSK"),
        *("WiMAX-DHCP-RK", "ALU-AAA-Key-3", "Ruckus-DPSK-EAPOL-Key-Frame", "Acc-Ace-Token", "Yubikey-OTP"),
        *("Attr-2", "Attr-3", "Attr-26.311.11", "Motorola-Canopy-VLSMMGPASS"),
    ],
)
def test_credential_is_hidden_from_every_user(name):
    assert not is_visible(name)


@pytest.mark.parametrize(
    "name", ["EAP-Key-Name", "Framed-Protocol", "Filter-Id", "Attr-26.9.1", "Attr-30", "Framed-IP-Netmask", "Class"]
)
def test_other_attributes_are_visible(name):
    assert is_visible(name)
