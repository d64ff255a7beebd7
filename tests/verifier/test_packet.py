"""Packets that the verifier receives. It parses requests of radiusd and drops any other packet."""

import os
import zlib
from base64 import b64encode
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nac.inventory.identity_sources.verifier_messages import (
    MAX_RESULT_OCTETS,
    ResultTooLong,
    UnreadablePairs,
    UnreadableResult,
    VerificationResult,
    decode_pairs,
    decode_result,
    encode_result,
)
from nac.kit import radius_packet as packet
from nac.kit.radius_packet import (
    ACCESS_ACCEPT,
    ACCESS_REJECT,
    NAS_IDENTIFIER,
    PROXY_STATE,
    USER_NAME,
    USER_PASSWORD,
    encode_attribute,
)
from radius.verifier.packet import (
    RejectedDatagram,
    UnreadableLogin,
    make_response_packet,
    parse_login,
)

SECRET = b"a-secret-of-the-tests"
STATE = encode_attribute(PROXY_STATE, b"5")


def request(name=b"anna", password=b"open sesame", slot="slot_7", *, more=b"", secret=SECRET, authenticator=b"a" * 16):
    attributes = encode_attribute(USER_NAME, name) + encode_attribute(NAS_IDENTIFIER, slot) + more
    return packet.make_access_request(9, authenticator, attributes, secret, password)


@pytest.mark.parametrize("password", [b"x", b"open sesame", b"s" * 16, b"p" * 128, "pässwörd ☕".encode(), b" a "])
def test_login_from_radiusd_is_parsed(password):
    login = parse_login(request(password=password, more=STATE), SECRET)
    assert (login.identifier, login.slot, login.name, login.password) == (9, 7, b"anna", password)
    assert login.proxy_states == (b"5",)


@pytest.mark.parametrize(("code", "messages"), [(ACCESS_ACCEPT, [b"a" * 253, b"b"]), (ACCESS_REJECT, [])])
def test_response_is_signed_with_proxy_states_in_order(code, messages):
    asked = request(more=encode_attribute(PROXY_STATE, b"1") + encode_attribute(PROXY_STATE, b"2"))
    login = parse_login(asked, SECRET)
    answer = make_response_packet(login, code, messages, SECRET)
    assert packet.parse_response(answer, asked, SECRET).code == code
    with pytest.raises(packet.ForgedResponse):
        packet.parse_response(answer, asked, SECRET + b"!")
    assert (answer[0], answer[1]) == (code, 9)
    assert answer.endswith(encode_attribute(PROXY_STATE, b"1") + encode_attribute(PROXY_STATE, b"2"))


@pytest.mark.parametrize(
    "datagram",
    [
        b"",
        b"\x01" * 19,
        os.urandom(4097),
        request(secret=b"another secret"),
        request()[:-1],
        request().replace(b"\x01", b"\x04", 1),
        bytes((1, 9, 0, 28)) + b"a" * 16 + encode_attribute(USER_NAME, "anna") + b"xx",
    ],
    ids=lambda datagram: f"{len(datagram)} octets",
)
def test_packet_not_signed_by_radiusd_is_dropped(datagram):
    with pytest.raises(RejectedDatagram) as caught:
        parse_login(datagram, SECRET)
    assert not isinstance(caught.value, UnreadableLogin)


def signed(*attributes):
    return packet.make_access_request(9, b"a" * 16, STATE + b"".join(attributes), SECRET)


NAMED = encode_attribute(USER_NAME, "anna") + encode_attribute(NAS_IDENTIFIER, "slot_7")


@pytest.mark.parametrize(
    "datagram",
    [
        *(request(slot=slot, more=STATE) for slot in ("slot_", "7", "slot_-1", "slot_123456")),
        request(more=STATE + encode_attribute(USER_NAME, b"bert")),
        request(more=STATE + encode_attribute(NAS_IDENTIFIER, b"slot_1")),
        signed(NAMED),
        signed(encode_attribute(NAS_IDENTIFIER, "slot_7"), encode_attribute(USER_PASSWORD, b"x" * 16)),
        *(signed(NAMED, encode_attribute(USER_PASSWORD, hidden)) for hidden in (b"", b"short", b"x" * 17, b"x" * 144)),
    ],
    ids=lambda datagram: f"{len(datagram)} octets",
)
def test_signed_request_without_a_login_can_be_answered(datagram):
    with pytest.raises(UnreadableLogin) as caught:
        parse_login(datagram, SECRET)
    login = caught.value.login
    assert (login.identifier, login.name, login.password) == (9, b"", b"")
    answer = make_response_packet(login, ACCESS_REJECT, [], SECRET)
    assert packet.parse_response(answer, datagram, SECRET).code == ACCESS_REJECT
    assert answer.endswith(encode_attribute(PROXY_STATE, b"5"))


@given(st.binary(max_size=300))
def test_any_datagram_is_parsed_or_dropped(datagram):
    with pytest.raises(RejectedDatagram):
        parse_login(datagram, SECRET)


@given(place=st.integers(0, 200), octet=st.integers(0, 255))
def test_signed_request_with_one_octet_changed_is_dropped(place, octet):
    datagram = bytearray(request())
    place %= len(datagram)
    if datagram[place] == octet:
        octet ^= 1
    datagram[place] = octet
    with pytest.raises(RejectedDatagram):
        parse_login(bytes(datagram), SECRET)


@given(
    st.builds(
        VerificationResult,
        st.text(max_size=20),
        st.text(max_size=50),
        st.text(max_size=20),
        st.text(max_size=50),
        st.lists(st.text(max_size=30), max_size=20).map(tuple),
    )
)
def test_response_round_trips_in_printable_pieces(answer):
    pieces = encode_result(answer)
    assert all(1 <= len(piece) <= 253 and piece.isascii() for piece in pieces)
    assert decode_result([piece.decode() for piece in pieces]) == answer


def test_response_too_large_for_a_packet_is_rejected():
    groups = tuple(os.urandom(32).hex() for _ in range(300))
    with pytest.raises(ResultTooLong):
        encode_result(VerificationResult(groups=groups))
    hundreds = tuple(f"CORP-Department-{number:04}-Members" for number in range(500))
    assert sum(map(len, encode_result(VerificationResult(groups=hundreds)))) <= MAX_RESULT_OCTETS


@given(st.lists(st.text(max_size=300), max_size=3), st.lists(st.binary(max_size=300), max_size=3))
def test_any_pieces_are_parsed_or_unreadable(result, pairs):
    with suppress(UnreadableResult):
        decode_result(result)
    with suppress(UnreadablePairs):
        decode_pairs(pairs)


def test_endlessly_inflating_response_is_unreadable():
    with pytest.raises(UnreadableResult):
        decode_result([b64encode(zlib.compress(b" " * (8 << 20))).decode()])
