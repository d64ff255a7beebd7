"""Accounting with random attributes and a valid signature: every acknowledged record is stored."""

import os
import random

import pytest

from nac.kit import radius_packet as packet
from nac.kit.radius_packet import encode_attribute
from tests.whole.nas_packets import NasPackets

pytestmark = pytest.mark.faults

_PACKETS = 400
_TRIES = 3
# A Message-Authenticator must be valid, and an EAP-Message requires a Message-Authenticator (RFC 3579 3.2).
_LEFT_OUT = (79, 80)
_STATUS_TYPES = (1, 2, 3, 7, 8, *range(9, 16))
_OFTEN = (1, 4, 5, 8, 25, 26, 31, 32, 40, 41, 42, 43, 44, 46, 49, 52, 53, 55, 61, 87, 89, 95, 96, 97, 123, 168)


def value(rng: random.Random) -> bytes:
    match rng.randrange(5):
        case 0:
            return rng.choice((b"\x00", b"\xff")) * rng.choice((1, 4, 16, 253))
        case 1:
            return rng.randbytes(4)
        case 2:
            return rng.choice((b"anna", b"02-A0-C0-00-00-01", "ü".encode(), b"caf\xe9", b"%{User-Name}", b"a\x00'\\n"))
        case 3:
            # Attributes of the vendors Cisco, Microsoft, 3GPP or any. Their values may have any length.
            vendor = rng.choice((9, 311, 10415, rng.getrandbits(24)))
            inside = rng.randbytes(rng.randint(0, 60))
            return vendor.to_bytes(4, "big") + bytes((rng.randrange(256), len(inside) + 2)) + inside
        case _:
            return rng.randbytes(rng.randint(1, 253))


def random_attributes(rng: random.Random, number: int) -> bytes:
    """Random attributes that fit into a packet. No two packets are equal."""
    made = encode_attribute(packet.ACCT_SESSION_ID, f"{number}") if rng.random() < 0.5 else b""
    made += encode_attribute(packet.NAS_PORT, number)
    if rng.random() < 0.9:
        made += encode_attribute(packet.ACCT_STATUS_TYPE, rng.choice((*_STATUS_TYPES, rng.getrandbits(32))))
    for _ in range(rng.choice((1, 5, 20, 60))):
        kind = rng.choice((*_OFTEN, rng.randrange(1, 256)))
        if kind not in _LEFT_OUT and len(made) < 3_800:
            made += encode_attribute(kind, value(rng))
    return made


def test_random_accounting_is_acknowledged_and_stored_unchanged(instance, tenants, record_property):
    seed = os.urandom(4).hex()
    record_property("seed", seed)
    rng = random.Random(seed)
    tenant = str(tenants[0].tenant_id)

    def rows() -> int:
        [(count,)] = instance.query("SELECT count(*) FROM accounting_log WHERE tenant_id = %s", tenant)
        return count

    instance.wait_until_shipped()
    before, alarms, radiusd = rows(), instance.alarm_codes(), instance.pid("radiusd")
    with NasPackets(tenants[0]) as wire:
        requests = (
            packet.make_accounting_request(number % 256, random_attributes(rng, number), wire.secret)
            for number in range(_PACKETS)
        )
        # The test retransmits the request as a NAS does. It gets no second row.
        acknowledged = sum(
            any(wire.exchange(request, acct=True, seconds=2) for _ in range(_TRIES)) for request in requests
        )
    # One of some thousands of requests is invalid, and radiusd drops it.
    assert acknowledged > 0.98 * _PACKETS, f"seed {seed}"
    instance.wait_until_shipped()
    assert rows() - before == acknowledged, f"seed {seed}"
    assert instance.query("SELECT why FROM quarantined_records") == []
    assert instance.alarm_codes() <= alarms
    assert instance.pid("radiusd") == radiusd
    for negative in (
        "sessions WHERE least(session_seconds, input_octets, output_octets, interim_seconds) < 0",
        "sessions WHERE stopped_at < started_at",
        "usage_hours WHERE least(seconds, input_octets, output_octets) < 0",
    ):
        assert instance.query(f"SELECT count(*) FROM {negative}") == [(0,)], f"seed {seed}"
