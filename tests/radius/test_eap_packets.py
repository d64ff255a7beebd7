"""EAP packets at their limits: Framed-MTU, empty identities, and TLS messages that are too long."""

import os

import pytest

from nac.kit.radius_packet import (
    ACCESS_CHALLENGE,
    ACCESS_REJECT,
    CALLING_STATION_ID,
    EAP_MESSAGE,
    FRAMED_MTU,
    STATE,
    USER_NAME,
    encode_attribute,
    encode_eap_message,
    parse_attributes,
)
from tests.radius.devices import VERSIONS
from tests.radius.nas import Nas
from tests.radius.supplicant import new_mac
from tests.radius.tunnel import IDENTITY, NAK, RESPONSE, TLS, TTLS, Tunnel, anonymous_context, eap

FAILURE = 4
LENGTH_INCLUDED, MORE = 0x80, 0x40


def ask(cell, eap_packet, *more):
    """The response's code, EAP packet and State."""
    reply = Nas(cell.alpha).ask(b"".join(more) + encode_eap_message(eap_packet))
    found, state = b"", b""
    for number, value in parse_attributes(reply):
        if number == EAP_MESSAGE:
            found += value
        elif number == STATE:
            state = value
    return reply[0], found, state


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


@pytest.mark.parametrize("named", [b"", encode_attribute(USER_NAME, "x")], ids=["no User-Name", "another User-Name"])
def test_empty_identity_is_rejected_with_eap_failure(cell, named):
    mac = new_mac()
    code, packet, _ = ask(cell, eap(RESPONSE, 7, IDENTITY), named, encode_attribute(CALLING_STATION_ID, mac))
    assert code == ACCESS_REJECT
    assert packet == bytes((FAILURE, 7, 0, 4))
    assert cell.decision(mac=mac).reason == "empty-identity"


@pytest.mark.parametrize("announced", [True, False], ids=["announced", "not announced"])
def test_long_tls_message_is_rejected_with_eap_failure(cell, announced):
    mac = new_mac()
    device = encode_attribute(USER_NAME, "laptop") + encode_attribute(CALLING_STATION_ID, mac)
    code, packet, state = ask(cell, eap(RESPONSE, 1, IDENTITY, b"laptop"), device)
    flags, length = (LENGTH_INCLUDED | MORE, (70_000).to_bytes(4, "big")) if announced else (MORE, b"")
    for _ in range(40):
        assert code == ACCESS_CHALLENGE
        identifier = packet[1]
        fragment = eap(RESPONSE, identifier, TLS, bytes((flags,)) + length + os.urandom(3_500))
        code, packet, state = ask(cell, fragment, device, encode_attribute(STATE, state))
        if code == ACCESS_REJECT:
            break
    assert packet == bytes((FAILURE, identifier, 0, 4))
    assert cell.decision(mac=mac).reason == "tls-message-too-long"


@pytest.mark.parametrize(
    "last", [eap(RESPONSE, 9, 250, b"x"), eap(RESPONSE, 9, NAK), b"\x02\x09\x00\x03", eap(1, 9, TLS, b"\0")]
)
def test_any_reject_of_eap_carries_eap_failure(cell, last):
    mac = new_mac()
    device = encode_attribute(USER_NAME, "laptop") + encode_attribute(CALLING_STATION_ID, mac)
    code, _, state = ask(cell, eap(RESPONSE, 1, IDENTITY, b"laptop"), device)
    assert code == ACCESS_CHALLENGE
    code, packet, _ = ask(cell, last, device, encode_attribute(STATE, state))
    assert code == ACCESS_REJECT
    assert packet == bytes((FAILURE, 9, 0, 4))
