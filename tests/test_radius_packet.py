"""Another implementation (pyrad) parses Admit's packets, and Admit parses the packets of pyrad."""

import io
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyrad import packet as pyrad_packet
from pyrad.dictionary import Dictionary

from nac.kit import radius_packet as packet
from nac.kit.radius_packet import (
    ForgedResponse,
    MalformedPacket,
    UnsignedResponse,
    encode_attribute,
    make_access_request,
    make_accounting_request,
    parse_response,
    read_vlan,
)

SECRET = b"a shared secret"
# Longer than an MD5 block, so HMAC hashes the key first (RFC 2104 2).
LONG_SECRET = b"0123456789" * 8
DICTIONARY = Dictionary(
    io.StringIO(
        """
ATTRIBUTE User-Name 1 string
ATTRIBUTE User-Password 2 octets
ATTRIBUTE NAS-Port 5 integer
ATTRIBUTE Reply-Message 18 string
ATTRIBUTE Acct-Session-Id 44 string
ATTRIBUTE Message-Authenticator 80 octets
ATTRIBUTE Tunnel-Private-Group-Id 81 string
"""
    )
)


@pytest.mark.parametrize("secret", [SECRET, LONG_SECRET])
def test_access_request_is_valid_for_pyrad(secret):
    attributes = encode_attribute(packet.USER_NAME, "printer") + encode_attribute(packet.NAS_PORT, 50101)
    wire = make_access_request(7, os.urandom(16), attributes, secret, b"pass word")
    read = pyrad_packet.AuthPacket(packet=wire, secret=secret, dict=DICTIONARY)
    assert read.verify_message_authenticator()
    assert (read.id, read["User-Name"], read["NAS-Port"]) == (7, ["printer"], [50101])
    assert read.PwDecrypt(read["User-Password"][0]) == "pass word"
    assert wire[20] == packet.MESSAGE_AUTHENTICATOR


@pytest.mark.parametrize("length", [0, 1, 15, 16, 17, 128])
def test_password_of_any_length_is_decrypted_by_pyrad(length):
    password = "p" * length
    authenticator = os.urandom(16)
    hidden = packet.hide_password(password.encode(), authenticator, SECRET)
    assert packet.reveal_password(hidden[2:], authenticator, SECRET).rstrip(b"\0") == password.encode()
    read = pyrad_packet.AuthPacket(secret=SECRET, authenticator=authenticator, dict=DICTIONARY)
    assert hidden[1] == len(hidden)
    assert read.PwDecrypt(hidden[2:]) == password


def test_accounting_request_is_valid_for_pyrad():
    wire = make_accounting_request(9, encode_attribute(packet.ACCT_SESSION_ID, "s-1"), SECRET)
    read = pyrad_packet.AcctPacket(packet=wire, secret=SECRET, dict=DICTIONARY)
    assert read.VerifyAcctRequest()
    assert read["Acct-Session-Id"] == ["s-1"]


@pytest.mark.parametrize("secret", [SECRET, LONG_SECRET])
def test_response_is_valid_for_pyrad(secret):
    request = pyrad_packet.AuthPacket(id=3, secret=secret, dict=DICTIONARY, authenticator=os.urandom(16))
    attributes = encode_attribute(packet.REPLY_MESSAGE, "welcome")
    response = packet.make_response(packet.ACCESS_ACCEPT, 3, request.authenticator, attributes, secret)
    request.RequestPacket()
    assert request.VerifyReply(pyrad_packet.Packet(packet=response, secret=secret, dict=DICTIONARY), response)
    assert parse_response(response, request.RequestPacket(), secret).code == packet.ACCESS_ACCEPT


def test_coa_request_is_valid_for_pyrad():
    octets = packet.make_coa_request(packet.COA_REQUEST, 3, encode_attribute(packet.USER_NAME, "anna"), SECRET)
    read = pyrad_packet.CoAPacket(packet=octets, secret=SECRET, dict=DICTIONARY)
    assert read.VerifyCoARequest()
    assert read["User-Name"] == ["anna"]


def _reply(*, sign: bool, code: int = packet.ACCESS_ACCEPT) -> tuple[bytes, bytes]:
    """A reply of pyrad, and its request: (reply, request)."""
    request = pyrad_packet.AuthPacket(id=3, secret=SECRET, dict=DICTIONARY, authenticator=os.urandom(16))
    reply = request.CreateReply()
    reply.code = code
    reply["Reply-Message"] = "welcome"
    # By default, pyrad signs.
    reply.message_authenticator = sign
    return reply.ReplyPacket(), request.RequestPacket()


def test_reply_signed_by_pyrad_is_accepted():
    reply, request = _reply(sign=True)
    assert parse_response(reply, request, SECRET).octets == reply
    assert dict(packet.parse_attributes(reply))[packet.REPLY_MESSAGE] == b"welcome"
    with pytest.raises(ForgedResponse, match="Response Authenticator"):
        parse_response(reply, request[:4] + os.urandom(16) + request[20:], SECRET)
    for cut in (10, 25):
        with pytest.raises(MalformedPacket):
            parse_response(reply[:cut], request, SECRET)


@pytest.mark.parametrize("position", [0, 1, 4, 19, 22, -1])
def test_reply_with_one_bit_changed_is_rejected(position):
    reply, request = _reply(sign=True)
    forged = bytearray(reply)
    forged[position] ^= 1
    with pytest.raises(ForgedResponse):
        parse_response(bytes(forged), request, SECRET)


def test_only_replies_about_access_need_a_signature():
    reply, request = _reply(sign=False)
    with pytest.raises(UnsignedResponse):
        parse_response(reply, request, SECRET)
    assert parse_response(reply, request, SECRET, requires_signature=False).octets == reply
    reply, request = _reply(sign=False, code=packet.ACCOUNTING_RESPONSE)
    assert parse_response(reply, request, SECRET).octets == reply


@given(st.binary(max_size=300), st.binary(max_size=40))
def test_arbitrary_octets_are_no_reply(datagram, request):
    with pytest.raises((MalformedPacket, ForgedResponse)):
        parse_response(datagram, request.ljust(20, b"\0"), SECRET)


@given(st.binary(min_size=20, max_size=300))
def test_arbitrary_attributes_are_parsed_or_rejected(octets):
    try:
        assert sum(2 + len(value) for _, value in packet.parse_attributes(octets)) == len(octets) - 20
    except MalformedPacket:
        return


@pytest.mark.parametrize(("value", "vlan"), [(b"\x0120", "20"), (b"\x00staff", "staff"), (b"20", "20"), (None, "")])
def test_vlan_is_read_with_and_without_tag(value, vlan):
    attributes = encode_attribute(packet.USER_NAME, "x")
    if value is not None:
        attributes += encode_attribute(packet.TUNNEL_PRIVATE_GROUP_ID, value)
    assert read_vlan(bytes(20) + attributes) == vlan


@pytest.mark.parametrize("tail", [b"\x01", b"\x01\x00", b"\x01\x01", b"\x01\x09abc"])
def test_inconsistent_attribute_lengths_are_rejected(tail):
    with pytest.raises(ValueError, match="attribute at octet 20"):
        list(packet.parse_attributes(bytes(20) + tail))


def test_oversized_attribute_is_rejected():
    assert len(encode_attribute(packet.USER_NAME, b"x" * 253)) == 255
    with pytest.raises(ValueError, match="254 octets"):
        encode_attribute(packet.USER_NAME, b"x" * 254)
