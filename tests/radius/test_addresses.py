import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radius.module.request import packed_address


@pytest.mark.parametrize(
    ("text", "packed"),
    [
        ("192.0.2.1", "c0000201"),
        ("255.255.255.255", "ffffffff"),
        ("2001:db8::1", "20010db8000000000000000000000001"),
        ("2001:DB8:0:0::1", "20010db8000000000000000000000001"),
        ("::1", "00000000000000000000000000000001"),
        # An IPv4 NAS at an IPv6 socket has the same key as at an IPv4 socket.
        ("::ffff:192.0.2.1", "c0000201"),
        ("::ffff:c000:201", "c0000201"),
        ("::fffe:192.0.2.1", "00000000000000000000fffec0000201"),
    ],
)
def test_address_is_packed(text, packed):
    assert packed_address(text).hex() == packed


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "192.0.2",
        "192.0.2.256",
        "192.0.2.1 ",
        "192.0.2.01",
        "1.2.3.4/32",
        "2001:db8",
        "host",
        "1.2.3.4\0",
        "::1\0",
    ],
)
def test_invalid_address_is_none(text):
    assert packed_address(text) == b""


@given(st.ip_addresses())
def test_any_address_is_packed_as_the_standard_library_does(address):
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    assert packed_address(str(address)) == (mapped or address).packed


@given(st.text(max_size=60))
def test_any_text_raises_no_error(text):
    assert len(packed_address(text)) in (0, 4, 16)
