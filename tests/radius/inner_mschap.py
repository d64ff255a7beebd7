"""EAP-MSCHAPv2 inside PEAP and EAP-TTLS, one message at a time. A test can stop or cheat at any message."""

import os

from nac.kit.radius_packet import ACCESS_ACCEPT, ACCESS_CHALLENGE, ACCESS_REJECT
from tests.radius import mschap
from tests.radius.tenants import PASSWORD
from tests.radius.tunnel import EAP_AVP, IDENTITY, MSCHAPV2, PEAP, RESPONSE, TTLS, Tunnel, avp, eap


def inner_identifier(tunnel):
    """The identifier of the last EAP request inside TTLS."""
    return tunnel.heard[9]


def open_mschap(tenant, kind, *, name="anna", mac=""):
    """Open a tunnel up to the server's request for the password."""
    if kind == PEAP:
        tunnel = Tunnel(tenant, kind, mac=mac).open_peap(name.encode())
    else:
        tunnel = Tunnel(tenant, kind, mac=mac).open()
        tunnel.say(avp(EAP_AVP, eap(RESPONSE, 0, IDENTITY, name.encode())))
    assert tunnel.code == ACCESS_CHALLENGE
    return tunnel


def open_verified(tenant, kind):
    """Open a tunnel and send anna's correct password. The conversation is one packet before the Access-Accept."""
    tunnel = open_mschap(tenant, kind)
    say_eap(tunnel, kind, mschap_answer(tunnel, "anna", PASSWORD))
    assert b"S=" in tunnel.heard
    if kind == PEAP:
        say_eap(tunnel, kind, eap(RESPONSE, 0, MSCHAPV2, b"\x03"))
        assert result_tlv(tunnel)
    assert tunnel.code == ACCESS_CHALLENGE
    return tunnel


def finish(tunnel):
    """Continue with empty packets or the server's result until the final response, and return its code.

    radiusd ends a conversation after 50 round trips.
    """
    while tunnel.code == ACCESS_CHALLENGE:
        tunnel.say(result_tlv(tunnel))
    assert tunnel.code in (ACCESS_ACCEPT, ACCESS_REJECT)
    return tunnel.code


def say_eap(tunnel, kind, packet):
    # PEAP version 0 omits the EAP header.
    tunnel.say(packet[4:] if kind == PEAP else avp(EAP_AVP, packet))


def mschap_answer(tunnel, name, password, *, written=None):
    """The EAP-MSCHAPv2 Response to the last challenge inside the tunnel (draft-kamath-pppext-eap-mschapv2 2.2)."""
    heard = tunnel.heard
    at = 12 if tunnel.kind == TTLS else 0
    assert heard[at] == MSCHAPV2
    if heard[at + 1] == 1:
        identifier, challenge = heard[at + 2], heard[at + 6 : at + 22]
    else:
        # A Failure message carries the challenge for the next attempt.
        identifier = heard[at + 2]
        challenge = bytes.fromhex(heard[heard.index(b"C=") + 2 :][:32].decode())
    peer = os.urandom(16)
    value = peer + bytes(8) + mschap.response_v2(challenge, peer, name, password) + b"\0"
    signed = name.encode() if written is None else written
    length = (5 + len(value) + len(signed)).to_bytes(2, "big")
    data = bytes((2, identifier)) + length + bytes((len(value),)) + value + signed
    return eap(RESPONSE, heard[9] if tunnel.kind == TTLS else 0, MSCHAPV2, data)


def result_tlv(tunnel):
    """PEAP's Result TLV (EAP type 33), returned unchanged, or b"" for TTLS."""
    at = tunnel.heard.find(bytes((33, 0x80)))
    return (
        eap(RESPONSE, tunnel.heard[1] if len(tunnel.heard) > 1 else 0, 33, tunnel.heard[at + 1 :]) if at >= 0 else b""
    )
