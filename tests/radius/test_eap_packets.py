"""EAP packets at their limits: Framed-MTU, empty identities, and TLS messages that are too long."""

import os

import pytest

from nac.kit.radius_packet import (
    ACCESS_CHALLENGE,
    ACCESS_REJECT,
    FRAMED_MTU,
    encode_attribute,
)
from tests.radius.devices import VERSIONS
from tests.radius.tunnel import IDENTITY, NAK, RESPONSE, TLS, TTLS, Tunnel, anonymous_context, eap

FAILURE = 4
LENGTH_INCLUDED, MORE = 0x80, 0x40


class TunnelWithMtu(Tunnel):
    """A tunnel with this Framed-MTU, which records the lengths of received EAP packets."""

    framed_mtu = 0
    longest = 0

    def ask(self, packet):
        self.more = encode_attribute(FRAMED_MTU, self.framed_mtu)
        found = super().ask(packet)
        self.longest = max(self.longest, len(found))
        return found


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("framed_mtu", "longest"), [(1400, 1400), (1200, 1200), (1020, 1020), (500, 500), (108, 108), (100, 107), (64, 107)]
)
def test_eap_packets_fit_into_framed_mtu(cell, version, framed_mtu, longest):
    """`radiusd` sends no fragments below 107 octets. EAP requires an MTU of at least 1,020 octets (RFC 3748 3.1)."""
    tunnel = TunnelWithMtu(cell.alpha, TTLS, version=version, context=anonymous_context(version))
    tunnel.framed_mtu = framed_mtu
    tunnel.open()
    assert 0 < tunnel.longest <= longest
    if framed_mtu < 1000:
        assert tunnel.longest == longest


@pytest.mark.parametrize("name", [None, "x"], ids=["no User-Name", "another User-Name"])
def test_empty_identity_is_rejected_with_eap_failure(cell, name):
    device = Tunnel(cell.alpha, outer=name)
    assert device.ask(eap(RESPONSE, 7, IDENTITY)) == bytes((FAILURE, 7, 0, 4))
    assert device.code == ACCESS_REJECT
    assert cell.decision(mac=device.mac).reason == "empty-identity"


@pytest.mark.parametrize("announced", [True, False], ids=["announced", "not announced"])
def test_long_tls_message_is_rejected_with_eap_failure(cell, announced):
    device = Tunnel(cell.alpha, outer="laptop")
    found = device.ask(eap(RESPONSE, 1, IDENTITY, b"laptop"))
    flags, length = (LENGTH_INCLUDED | MORE, (70_000).to_bytes(4, "big")) if announced else (MORE, b"")
    for _ in range(40):
        assert device.code == ACCESS_CHALLENGE
        identifier = found[1]
        found = device.ask(eap(RESPONSE, identifier, TLS, bytes((flags,)) + length + os.urandom(3_500)))
        if device.code == ACCESS_REJECT:
            break
    assert found == bytes((FAILURE, identifier, 0, 4))
    assert cell.decision(mac=device.mac).reason == "tls-message-too-long"


@pytest.mark.parametrize(
    "last", [eap(RESPONSE, 9, 250, b"x"), eap(RESPONSE, 9, NAK), b"\x02\x09\x00\x03", eap(1, 9, TLS, b"\0")]
)
def test_any_reject_of_eap_carries_eap_failure(cell, last):
    device = Tunnel(cell.alpha, outer="laptop")
    device.ask(eap(RESPONSE, 1, IDENTITY, b"laptop"))
    assert device.code == ACCESS_CHALLENGE
    assert device.ask(last) == bytes((FAILURE, 9, 0, 4))
    assert device.code == ACCESS_REJECT
