"""Packets that must get no response. A counter records the reason, and radiusd continues."""

import os
import struct
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass

import pytest

from nac.kit import radius_packet as packet
from nac.kit.radius_packet import encode_attribute
from nac.kit.request_sources import DEMO_ADDRESS
from tests.polling import until
from tests.whole.nas_packets import NasPackets

pytestmark = pytest.mark.faults

_ROUNDS = 4
_STRANGERS_SECRET = b"a-secret-of-somebody-else"


def framed(code: int, attributes: bytes, *, length: int | None = None) -> bytes:
    """A packet whose header may be false."""
    return (
        struct.pack("!BBH", code, 7, 20 + len(attributes) if length is None else length) + os.urandom(16) + attributes
    )


def unsigned(wire: NasPackets) -> bytes:
    """An Access-Request without Message-Authenticator, as old NASes send it."""
    authenticator, mac = os.urandom(16), wire.device.mac
    hidden = packet.hide_password(mac.encode(), authenticator, wire.secret)
    attributes = hidden + encode_attribute(packet.USER_NAME, mac)
    return struct.pack("!BBH", packet.ACCESS_REQUEST, 7, 20 + len(attributes)) + authenticator + attributes


def with_flipped_bit(request: bytes, at: int) -> bytes:
    return request[:at] + bytes((request[at] ^ 1,)) + request[at + 1 :]


@dataclass(frozen=True)
class BadPacket:
    what: str
    datagram: bytes
    # The counter in status.json that increases by one.
    counter: str
    acct: bool = False


def bad_packets(wire: NasPackets) -> list[BadPacket]:
    signature = 22  # The first octet of the value of Message-Authenticator, which is the first attribute.
    record = wire.accounting_packet("never")
    return [
        BadPacket("no octet at all", b"", "auth_malformed"),
        BadPacket("less than a header", b"\x01\x07\x00\x14abc", "auth_malformed"),
        BadPacket("a length beyond the datagram", framed(1, b"", length=100), "auth_malformed"),
        BadPacket("a length below a header's", framed(1, b"", length=19), "auth_malformed"),
        BadPacket("more than 4,096 octets", framed(1, encode_attribute(1, "x" * 253) * 17), "auth_malformed"),
        BadPacket("an attribute of length 0", framed(1, b"\x01\x00"), "auth_malformed"),
        BadPacket("an attribute of length 1", framed(1, b"\x01\x01"), "auth_malformed"),
        BadPacket("an attribute beyond the packet", framed(1, b"\x01\x20ab"), "auth_malformed"),
        BadPacket("a Message-Authenticator of 3 octets", framed(1, b"\x50\x05abc"), "auth_malformed"),
        BadPacket("more attributes than any NAS sends", framed(1, b"\x01\x03a" * 300), "auth_malformed"),
        BadPacket("noise", bytes(300), "auth_malformed"),
        BadPacket("no Message-Authenticator", unsigned(wire), "auth_dropped"),
        BadPacket("an unknown code", framed(99, b""), "auth_unknown_types"),
        BadPacket("an answer", framed(2, b""), "auth_unknown_types"),
        BadPacket("accounting where devices authenticate", record, "auth_unknown_types"),
        BadPacket("a wrong secret", wire.mab_packet(secret=_STRANGERS_SECRET), "auth_invalid"),
        BadPacket("a wrong Message-Authenticator", with_flipped_bit(wire.mab_packet(), signature), "auth_invalid"),
        BadPacket("an attribute changed on the way", with_flipped_bit(wire.mab_packet(), -1), "auth_invalid"),
        BadPacket("less than a header", b"\x04\x07\x00", "acct_malformed", acct=True),
        BadPacket("an attribute of length 0", framed(4, b"\x01\x00"), "acct_malformed", acct=True),
        BadPacket("authentication where devices account", wire.mab_packet(), "acct_unknown_types", acct=True),
        BadPacket("a wrong secret", wire.accounting_packet("n", secret=_STRANGERS_SECRET), "acct_invalid", acct=True),
        BadPacket("an attribute changed on the way", with_flipped_bit(record, -1), "acct_invalid", acct=True),
    ]


def test_bad_packets_are_dropped_and_counted_by_reason(instance, tenants):
    with NasPackets(tenants[0]) as wire:
        table = bad_packets(wire)
        expected = Counter(bad.counter for bad in table)
        for _ in range(_ROUNDS):
            restarts = instance.counter("radiusd_restarts")
            before = {name: instance.counter(name) for name in expected}
            radiusd = instance.pid("radiusd")
            for bad in table:
                wire.send(bad.datagram, acct=bad.acct)
            assert wire.is_silent()

            def counted(before=before) -> bool:
                return {name: instance.counter(name) - before[name] for name in expected} == dict(expected)

            def has_replaced_radiusd(radiusd=radiusd, restarts=restarts) -> bool:
                """Replace radiusd in a quiet moment, for the certificates of new tenants.

                The unreported counts of the old radiusd are lost.
                """
                return instance.pid("radiusd") != radiusd and instance.counter("radiusd_restarts") == restarts

            # Packets during the replacement are not counted either, so the test sends the table again.
            with suppress(AssertionError):
                until(lambda: counted() or has_replaced_radiusd(), "counters rise", seconds=10)
            if counted():
                break
        assert counted(), f"counters rise by {dict(expected)} from {before}"
        assert wire.verdict() == packet.ACCESS_ACCEPT
        assert wire.exchange(wire.accounting_packet(f"good-{os.urandom(4).hex()}"), acct=True)
    assert instance.pid("radiusd") == radiusd
    printed = instance.admit("status").stdout
    assert all(name in printed for name in expected)


def test_wrong_secret_is_counted_and_raises_an_alarm(instance, tenants):
    """The log of radiusd names the client at most once a second. Admit's own trials raise no alarm."""
    ours, others = tenants

    def send_until_counted(wire, name, *, acct=False):
        before = instance.counter(name)

        def is_counted() -> bool:
            secret = _STRANGERS_SECRET
            wire.send(wire.accounting_packet("n", secret=secret) if acct else wire.mab_packet(secret=secret), acct=acct)
            return instance.counter(name) > before

        until(is_counted, f"{name} rises")

    with NasPackets(ours, address=str(DEMO_ADDRESS)) as wire:
        send_until_counted(wire, "radiusd_log_bad_message_authenticator")
    with NasPackets(others) as wire:
        send_until_counted(wire, "radiusd_log_bad_message_authenticator")
        send_until_counted(wire, "radiusd_log_bad_request_authenticator", acct=True)
        alarm = f"wrong-secret:{others.tenant.slug}"
        until(lambda: wire.send(wire.mab_packet(secret=_STRANGERS_SECRET)) or instance.alarm(alarm), "an alarm")
        assert "127.0.0.1" in instance.alarm(alarm)
        assert wire.verdict() == packet.ACCESS_ACCEPT
    # The agent reported earlier events earlier, possibly during another test.
    assert str(DEMO_ADDRESS) not in instance.alarm(f"wrong-secret:{ours.tenant.slug}")
