"""MAC addresses, SSIDs and IP addresses in the formats of NASes."""

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nac.kit.mac import called_station_ssid, display_mac, is_random_mac, normalise_mac, station_mac
from radius.module.request import packed_address

digits = st.text("0123456789abcdef", min_size=12, max_size=12)
NOTATIONS = [
    lambda mac: mac,
    *(lambda mac, sep=sep: sep.join(mac[at : at + 2] for at in range(0, 12, 2)) for sep in ":- "),
    *(lambda mac, sep=sep: sep.join(mac[at : at + 4] for at in range(0, 12, 4)) for sep in ".:"),
    *(lambda mac, sep=sep: f"{mac[:6]}{sep}{mac[6:]}" for sep in "-:"),
]


@given(digits, st.sampled_from(NOTATIONS), st.booleans())
def test_every_format_gives_the_same_address(mac, write, capitals):
    written = write(mac).upper() if capitals else write(mac)
    assert normalise_mac(written) == normalise_mac(display_mac(mac)) == mac


@pytest.mark.parametrize(
    "text",
    [
        *("", "00112233445", "0011223344556", "00:11:22:33:44", "00:11:22:33:44:5g", "00:11:22:33:44:55:66"),
        *("00-10-A4-23-19-C0:AP1", "00:11:22:33:44:55\n", "\uff10\uff101122334455", "1122334455\u0660\u0660"),
        "user@00112233",
    ],
)
def test_invalid_mac_address_is_none(text):
    assert normalise_mac(text) == ""


@given(st.text(max_size=40))
def test_any_text_gives_a_mac_address_or_nothing(text):
    found = normalise_mac(text)
    assert found == "" or (len(found) == 12 and bytes.fromhex(found))


@given(digits | st.just(""))
def test_random_address_has_the_local_but_not_the_group_bit(mac):
    assert is_random_mac(mac) == (bool(mac) and bytes.fromhex(mac)[0] & 3 == 2)


@pytest.mark.parametrize(
    ("text", "ssid"),
    [
        ("0010a42319c0:Cafe:Guest", "Cafe:Guest"),
        ("0010a4-2319c0:AP1", "AP1"),
        ("0010a4-2319zz:APx", ""),
        ("00-10-A4-23-19-C0:", ""),
        ("00-10-A4-23-19-C0: ", " "),
        ("00-10-A4-23-19-C0", ""),
        ("00:10:A4:23:19:C0", ""),
        ("0010a42319c0", ""),
        ("switch-1", ""),
        ("", ""),
    ],
)
def test_ssid_is_read_after_the_address(text, ssid):
    assert called_station_ssid(text) == ssid


@given(digits, st.sampled_from(NOTATIONS), st.text(min_size=1, max_size=32))
def test_any_ssid_is_read_after_the_address(mac, write, ssid):
    assert called_station_ssid(f"{write(mac)}:{ssid}") == ssid


@pytest.mark.parametrize(
    ("text", "mac"),
    [
        ("02-A0-C0-00-00-01:corp", "02a0c0000001"),
        ("02:a0:c0:00:00:01:corp:2", "02a0c0000001"),
        ("02a0c0000001:1234", "02a0c0000001"),
        ("02a0.c000.0001:corp", "02a0c0000001"),
        ("02a0c0-000001:", "02a0c0000001"),
        ("02a0c0000001", "02a0c0000001"),
        ("02a0c000000g:corp", ""),
        ("02a0c0000001-corp", ""),
        ("192.0.2.7:corp", ""),
        # The last address is an EUI-64.
        ("02:a0:c0:ff:fe:00:00:01", ""),
        ("02a0c0fffe000001", ""),
        ("", ""),
    ],
)
def test_station_is_the_address_before_an_ssid(text, mac):
    assert station_mac(text) == mac


@given(digits, st.sampled_from(NOTATIONS), st.text(st.characters(exclude_characters=":"), max_size=32))
def test_station_never_contains_the_ssid(mac, write, ssid):
    written = f"{write(mac)}:{ssid}"
    assert station_mac(written) in (mac, normalise_mac(written))


@pytest.mark.parametrize(
    ("text", "packed"),
    [
        ("2001:DB8:0:0::1", "20010db8000000000000000000000001"),
        # An IPv4 NAS at an IPv6 socket has the same key as at an IPv4 socket.
        ("::ffff:192.0.2.1", "c0000201"),
        ("::ffff:c000:201", "c0000201"),
        ("::fffe:192.0.2.1", "00000000000000000000fffec0000201"),
        *((text, "") for text in ("", " ", "192.0.2", "192.0.2.256", "192.0.2.1 ", "192.0.2.01", "1.2.3.4/32")),
        *((text, "") for text in ("2001:db8", "host", "1.2.3.4\0", "::1\0")),
    ],
)
def test_ip_address_is_packed_or_invalid(text, packed):
    assert packed_address(text).hex() == packed


@given(st.ip_addresses())
def test_any_ip_address_is_packed_as_the_standard_library_does(address):
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    assert packed_address(str(address)) == (mapped or address).packed


@given(st.text(max_size=60))
def test_any_text_gives_an_ip_address_or_nothing(text):
    assert len(packed_address(text)) in (0, 4, 16)
