"""Our packets parsed by another implementation (pyrad), and its packets parsed by us."""

import io
import os

import pytest
from pyrad import packet as pyrad_packet
from pyrad.dictionary import Dictionary

from loadtest import packet
from loadtest.packet import Secret, access_request, accounting_request, attribute, reply_fault, vlan_of

SECRET = Secret(b"a shared secret")
# Longer than an MD5 block: HMAC then hashes the key first (RFC 2104 2).
LONG_SECRET = Secret(b"0123456789" * 8)
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
    attributes = attribute(packet.USER_NAME, "printer") + attribute(packet.NAS_PORT, 50101)
    wire = access_request(7, os.urandom(16), attributes, secret, b"pass word")
    read = pyrad_packet.AuthPacket(packet=wire, secret=secret.value, dict=DICTIONARY)
    assert read.verify_message_authenticator()
    assert (read.id, read["User-Name"], read["NAS-Port"]) == (7, ["printer"], [50101])
    assert read.PwDecrypt(read["User-Password"][0]) == "pass word"
    assert wire[20] == packet.MESSAGE_AUTHENTICATOR


@pytest.mark.parametrize("length", [0, 1, 15, 16, 17, 128])
def test_password_of_any_length_is_decrypted_by_pyrad(length):
    password = "p" * length
    authenticator = os.urandom(16)
    hidden = packet.hide_password(password.encode(), authenticator, SECRET)
    read = pyrad_packet.AuthPacket(secret=SECRET.value, authenticator=authenticator, dict=DICTIONARY)
    assert hidden[1] == len(hidden)
    assert read.PwDecrypt(hidden[2:]) == password


def test_accounting_request_is_valid_for_pyrad():
    wire = accounting_request(9, attribute(packet.ACCT_SESSION_ID, "s-1"), SECRET)
    read = pyrad_packet.AcctPacket(packet=wire, secret=SECRET.value, dict=DICTIONARY)
    assert read.VerifyAcctRequest()
    assert read["Acct-Session-Id"] == ["s-1"]


def _reply(*, sign: bool, code: int = packet.ACCESS_ACCEPT) -> tuple[bytes, bytes]:
    """(Reply of pyrad, Request Authenticator)."""
    request = pyrad_packet.AuthPacket(id=3, secret=SECRET.value, dict=DICTIONARY, authenticator=os.urandom(16))
    reply = request.CreateReply()
    reply.code = code
    reply["Reply-Message"] = "welcome"
    # pyrad signs by default.
    reply.message_authenticator = sign
    return reply.ReplyPacket(), request.authenticator


def test_reply_signed_by_pyrad_is_accepted():
    reply, authenticator = _reply(sign=True)
    assert reply_fault(reply, authenticator, SECRET) == ""
    assert dict(packet.parse_attributes(reply))[packet.REPLY_MESSAGE] == b"welcome"


@pytest.mark.parametrize("position", [0, 1, 4, 19, 22, -1])
def test_reply_with_one_bit_changed_is_rejected(position):
    reply, authenticator = _reply(sign=True)
    forged = bytearray(reply)
    forged[position] ^= 1
    assert reply_fault(bytes(forged), authenticator, SECRET) == "Response Authenticator is wrong"


def test_reply_to_another_request_is_rejected():
    reply, _ = _reply(sign=True)
    assert reply_fault(reply, os.urandom(16), SECRET) == "Response Authenticator is wrong"


def test_access_reply_without_signature_is_rejected():
    reply, authenticator = _reply(sign=False)
    assert reply_fault(reply, authenticator, SECRET) == "Message-Authenticator is missing"


def test_accounting_reply_without_signature_is_accepted():
    reply, authenticator = _reply(sign=False, code=packet.ACCOUNTING_RESPONSE)
    assert reply_fault(reply, authenticator, SECRET) == ""


@pytest.mark.parametrize(("cut", "fault"), [(10, "shorter than a header"), (25, "length field and datagram differ")])
def test_truncated_reply_is_rejected(cut, fault):
    reply, authenticator = _reply(sign=True)
    assert reply_fault(reply[:cut], authenticator, SECRET) == fault


@pytest.mark.parametrize(("value", "vlan"), [(b"\x0120", "20"), (b"\x00staff", "staff"), (b"20", "20"), (None, "")])
def test_vlan_is_read_with_and_without_tag(value, vlan):
    attributes = attribute(packet.USER_NAME, "x")
    if value is not None:
        attributes += attribute(packet.TUNNEL_PRIVATE_GROUP_ID, value)
    assert vlan_of(bytes(20) + attributes) == vlan


@pytest.mark.parametrize("tail", [b"\x01", b"\x01\x00", b"\x01\x01", b"\x01\x09abc"])
def test_inconsistent_attribute_lengths_are_rejected(tail):
    with pytest.raises(ValueError, match="attribute at octet 20"):
        list(packet.parse_attributes(bytes(20) + tail))


def test_oversized_attribute_is_rejected():
    assert len(attribute(packet.USER_NAME, b"x" * 253)) == 255
    with pytest.raises(ValueError, match="254 octets"):
        attribute(packet.USER_NAME, b"x" * 254)
