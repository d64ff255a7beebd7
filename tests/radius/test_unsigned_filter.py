"""The packet filter in the kernel: it passes every packet that radiusd must receive."""

import os
import socket
from contextlib import ExitStack, contextmanager

import pytest

from nac.kit import radius_packet as packet
from nac.kit.radius_packet import USER_NAME, encode_attribute
from radius.module.unsigned import TooManyExempt, attach, build_program, detach

SECRET = b"sixteen-letters-"
NAME = encode_attribute(USER_NAME, "00005e005301")
LOOPBACK = {socket.AF_INET: "127.0.0.1", socket.AF_INET6: "::1"}


def with_length(datagram: bytes, length: int) -> bytes:
    return datagram[:2] + length.to_bytes(2) + datagram[4:]


def signed(attributes: bytes, *, code: int = 1) -> bytes:
    return packet.make_access_request(7, os.urandom(16), attributes, SECRET, b"password", code=code)


def unsigned(attributes: bytes, *, code: int = 1) -> bytes:
    body = bytes((code, 7)) + (20 + len(attributes)).to_bytes(2) + os.urandom(16)
    return body + attributes


def signature_last(attributes: bytes) -> bytes:
    return unsigned(attributes + encode_attribute(80, bytes(16)))


PASSES = {
    "signed": signed(NAME),
    "signed, signature last": signature_last(NAME),
    "signed, signature behind 199 attributes": signature_last(encode_attribute(18, b"x") * 199),
    "Status-Server": signed(NAME, code=12),
    "another code without attributes": unsigned(b"", code=4),
    "attribute of length 0": unsigned(NAME + b"\x01\x00" + NAME),
    "attribute of length 1": unsigned(b"\x01\x01"),
}
DROPPED = {
    "unsigned": unsigned(NAME),
    "without attributes": unsigned(b""),
    "80 in a value": unsigned(encode_attribute(18, bytes((80, 18)) + bytes(16))),
    "signature in the padding": with_length(signature_last(NAME), 20 + len(NAME)),
    "attribute beyond the datagram": unsigned(b"\x01\xff"),
    "attribute that ends in its length": unsigned(NAME + b"\x01"),
    "length beyond the datagram": with_length(unsigned(NAME), 4000),
    "199 attributes": unsigned(encode_attribute(18, b"x") * 199),
}


@contextmanager
def filtered(family: int, exempt: tuple[str, ...] = ()):
    """A listener with the filter, and a sender to it from an address."""
    with ExitStack() as stack:
        listener = stack.enter_context(socket.socket(family, socket.SOCK_DGRAM))
        listener.bind((LOOPBACK[family], 0))
        listener.setblocking(False)
        attach(listener, exempt)

        def passes(datagram: bytes, source: str = LOOPBACK[family]) -> bool:
            with socket.socket(family, socket.SOCK_DGRAM) as sender:
                sender.bind((source, 0))
                sender.sendto(datagram, listener.getsockname()[:2])
            try:
                return listener.recv(4096) == datagram
            except BlockingIOError:
                return False

        yield listener, passes


@pytest.mark.parametrize("family", LOOPBACK)
def test_filter_passes_signed_packets_and_responses(family):
    with filtered(family) as (_, passes):
        assert {name for name, datagram in PASSES.items() if not passes(datagram)} == set()


@pytest.mark.parametrize("family", LOOPBACK)
def test_filter_drops_unsigned_requests(family):
    with filtered(family) as (_, passes):
        assert {name for name, datagram in DROPPED.items() if passes(datagram)} == set()


def test_exempt_addresses_pass():
    exempt = ("2001:db8::1", *(f"127.0.1.{last}" for last in range(1, 200)))
    with filtered(socket.AF_INET, exempt) as (_, passes):
        assert passes(unsigned(NAME), "127.0.1.1")
        assert passes(unsigned(NAME), "127.0.1.199")
        assert not passes(unsigned(NAME), "127.0.1.200")
        assert not passes(unsigned(NAME), "127.0.2.1")


def test_exempt_ipv6_address_passes():
    near_miss = ("::2", "0:0:0:1::1", "0:0:1::1", "1::1")
    with filtered(socket.AF_INET6, ("127.0.0.1", *near_miss)) as (_, passes):
        assert not passes(unsigned(NAME))
    with filtered(socket.AF_INET6, (*near_miss, "::1")) as (_, passes):
        assert passes(unsigned(NAME))


def test_detached_filter_drops_nothing():
    with filtered(socket.AF_INET) as (listener, passes):
        detach(listener)
        assert passes(unsigned(NAME))


def test_too_many_exempt_addresses_are_rejected():
    with pytest.raises(TooManyExempt):
        build_program(False, [f"10.0.{n // 256}.{n % 256}" for n in range(2_000)])
