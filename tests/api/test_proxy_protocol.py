"""The PROXY protocol: valid headers are parsed exactly, and any other bytes are rejected."""

import asyncio
import ipaddress
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.proxy_protocol import ProxyHeaderDamaged, read_client

SIGNATURE = b"\r\n\r\n\x00\r\nQUIT\n"


def binary(source: str, *, command: int = 0x21, family: int | None = None, more: bytes = b"") -> bytes:
    """A version 2 header. `more` contains the fields after the addresses."""
    address = ipaddress.ip_address(source)
    family = (0x11 if address.version == 4 else 0x21) if family is None else family
    body = address.packed * 2 + struct.pack("!HH", 4711, 443) + more
    return SIGNATURE + struct.pack("!BBH", command, family, len(body)) + body


def read(data: bytes, *, at_once: int = 1 << 20) -> tuple[tuple[str, int] | None, bytes]:
    """The parsed header and the remaining bytes."""
    left = data

    async def receive(most: int) -> bytes:
        nonlocal left
        part, left = left[: min(most, at_once)], left[min(most, at_once) :]
        return part

    found = asyncio.run(read_client(receive))
    return found, left


@pytest.mark.parametrize("at_once", [1, 5, 1 << 20])
@pytest.mark.parametrize(
    ("header", "client"),
    [
        (b"PROXY TCP4 192.0.2.7 198.51.100.1 56324 443\r\n", ("192.0.2.7", 56324)),
        (b"PROXY TCP6 2001:db8::7 2001:db8::1 56324 443\r\n", ("2001:db8::7", 56324)),
        (b"PROXY UNKNOWN\r\n", None),
        (b"PROXY UNKNOWN ff ff 1 2 and whatever else\r\n", None),
        (binary("192.0.2.7"), ("192.0.2.7", 4711)),
        (binary("2001:db8::7"), ("2001:db8::7", 4711)),
        (binary("192.0.2.7", more=b"\x04\x00\x05hello"), ("192.0.2.7", 4711)),
        (binary("192.0.2.7", command=0x20), None),
        (SIGNATURE + b"\x20\x00\x00\x00", None),
        (binary("192.0.2.7", family=0x31), None),
    ],
)
def test_header_names_the_client_and_its_exact_end(header: bytes, client: tuple[str, int] | None, at_once: int) -> None:
    assert read(header + b"\x16\x03\x01", at_once=at_once) == (client, b"\x16\x03\x01")


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(100),
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"PROXY TCP4 192.0.2.7 198.51.100.1 56324 443",
        b"PROXY TCP4 192.0.2.7 198.51.100.1 56324\r\n",
        b"PROXY TCP4 192.0.2.7 198.51.100.1 65536 443\r\n",
        b"PROXY TCP4 2001:db8::7 2001:db8::1 56324 443\r\n",
        b"PROXY TCP4 somewhere 198.51.100.1 56324 443\r\n",
        b"PROXY UDP4 192.0.2.7 198.51.100.1 56324 443\r\n",
        b"PROXY UNKNOWN " + b"x" * 200 + b"\r\n",
        SIGNATURE + b"\x21\x11\x00\x04" + bytes(4),
        SIGNATURE + b"\x11\x11\x00\x0c" + bytes(12),
        SIGNATURE + b"\x22\x11\x00\x0c" + bytes(12),
        SIGNATURE + b"\x21\x11\xff\xff" + bytes(0xFFFF),
        binary("192.0.2.7")[:-1],
    ],
)
def test_invalid_header_is_rejected(data: bytes) -> None:
    with pytest.raises(ProxyHeaderDamaged):
        read(data)


@given(
    beginning=st.sampled_from([b"", SIGNATURE, SIGNATURE + b"\x21\x11", SIGNATURE + b"\x21\x21\x00", b"PROXY TCP4 "]),
    rest=st.binary(max_size=300),
)
def test_arbitrary_bytes_are_parsed_or_rejected(beginning: bytes, rest: bytes) -> None:
    try:
        client, _ = read(beginning + rest)
    except ProxyHeaderDamaged:
        return
    assert client is None or ipaddress.ip_address(client[0])
