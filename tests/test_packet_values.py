"""Credentials among the attributes of radiusd's dictionaries, which Admit identifies by name."""

import re

import pytest

from nac.cellformat.packet_values import is_recordable, is_visible
from tests.factories.dictionary import installed_dictionary

_SUSPECT = re.compile(r"passw|(?<!by)pass$|psk|pmk|\bmsk|secret|eapol|\botp\b", re.IGNORECASE)


@pytest.fixture(scope="module")
def dictionary():
    return installed_dictionary()


def test_encrypted_attributes_are_not_stored(dictionary):
    assert [a.name for a in dictionary.attributes.values() if a.encrypt and is_recordable(a.name)] == []


def test_secret_sounding_attributes_are_not_stored(dictionary):
    assert [a.name for a in dictionary.attributes.values() if _SUSPECT.search(a.name) and is_recordable(a.name)] == []


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
