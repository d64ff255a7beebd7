"""The time at which the verifier sends a response."""

import asyncio
import os

import pytest

from nac.inventory.identity_sources.verifier_messages import VerificationResult
from nac.kit import radius_packet as packet
from nac.kit.radius_packet import ACCESS_ACCEPT, ACCESS_REJECT, NAS_IDENTIFIER, USER_NAME, encode_attribute
from radius.verifier import server as server_module
from radius.verifier.server import VerifierServer

SECRET = b"a-secret-of-the-tests"
RADIUSD = ("127.0.0.1", 40000)


class RecordingTransport:
    """Replaces a transport, and records the sent packets by kind and number."""

    def __init__(self):
        self.packets: list[tuple[int, int]] = []
        self.arrived = asyncio.Event()

    def sendto(self, data, address):
        self.packets.append((data[0], data[1]))
        self.arrived.set()

    async def wait_for(self, count):
        while len(self.packets) < count:
            self.arrived.clear()
            await asyncio.wait_for(self.arrived.wait(), 10)
        return self.packets


def request(number, name):
    attributes = encode_attribute(USER_NAME, name) + encode_attribute(NAS_IDENTIFIER, "slot_7")
    return packet.make_access_request(number, bytes([number]) * 16, attributes, SECRET, b"open sesame")


async def verify(slot, name, password):
    if name == b"grace":
        return VerificationResult(source="AD", groups=tuple(os.urandom(16).hex() for _ in range(300)))
    return VerificationResult() if name == b"anna" else VerificationResult("wrong-password")


def run(*questions, delay):
    async def answered():
        server, sent = VerifierServer(SECRET, verify, reject_delay_seconds=delay), RecordingTransport()
        server.connection_made(sent)
        for datagram in questions:
            server.datagram_received(datagram, RADIUSD)
            await asyncio.sleep(0)
        return list(await sent.wait_for(len(set(questions)))), dict(server.counters)

    return asyncio.run(answered())


@pytest.mark.parametrize(
    ("questions", "delay", "packets", "counters"),
    [
        (("bert", "anna"), 0.2, [(ACCESS_ACCEPT, 2), (ACCESS_REJECT, 1)], {"rejects_wrong-password": 1}),
        # A right password with too many groups.
        (
            ("bert", "grace"),
            0.2,
            [(ACCESS_REJECT, 1), (ACCESS_REJECT, 2)],
            {"rejects_wrong-password": 1, "rejects_too-many-groups": 1},
        ),
        (("bert", "anna"), 0, [(ACCESS_REJECT, 1), (ACCESS_ACCEPT, 2)], {"rejects_wrong-password": 1}),
    ],
    ids=["accept first", "too many groups", "no delay"],
)
def test_only_rejects_are_delayed(questions, delay, packets, counters):
    sent, counted = run(*(request(number, name.encode()) for number, name in enumerate(questions, 1)), delay=delay)
    assert sent == packets
    assert {name: count for name, count in counted.items() if name.startswith("rejects_")} == counters


def test_repeated_request_during_the_delay_is_verified_once():
    packets, counters = run(*[request(1, b"bert")] * 3, delay=0.2)
    assert packets == [(ACCESS_REJECT, 1)]
    assert counters == {"rejects_wrong-password": 1}


def test_number_of_delayed_rejects_is_limited(monkeypatch):
    monkeypatch.setattr(server_module, "MAX_HELD", 1)
    packets, _ = run(request(1, b"bert"), request(2, b"carl"), delay=0.2)
    assert packets == [(ACCESS_REJECT, 2), (ACCESS_REJECT, 1)]
