"""CoA responses from any source: the agent accepts valid responses and ignores others."""

import struct
from hashlib import md5

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nac.engine.vendors import RecipeStep, find_vendor
from radius.agent.coa.packet import (
    CoaResponse,
    DiscardedResponse,
    SessionIdentifiers,
    encode_request_attributes,
    make_request_packet,
    parse_response,
)
from tests.agent.nas_simulator import DISCONNECT_ACK, DISCONNECT_NAK, SECRET, answer, attributes_of
from tests.factories.dictionary import installed_dictionary

REQUEST = make_request_packet(RecipeStep("disconnect"), 7, b"", at=1_800_000_000, secret=SECRET)
GOOD = answer(REQUEST, DISCONNECT_NAK, cause=503)


def fault(datagram):
    with pytest.raises(DiscardedResponse) as caught:
        parse_response(datagram, REQUEST, SECRET, signed=False)
    return caught.value.fault


def test_valid_responses_are_parsed():
    assert parse_response(GOOD, REQUEST, SECRET, signed=True) == CoaResponse(42, False, 503)
    assert parse_response(answer(REQUEST, DISCONNECT_ACK), REQUEST, SECRET, signed=True) == CoaResponse(41, True, 0)
    # RFC 2865 3: data after the length is padding.
    assert parse_response(GOOD + b"padding", REQUEST, SECRET, signed=True) == CoaResponse(42, False, 503)


@given(st.binary(max_size=5000))
def test_any_other_data_is_ignored(datagram):
    assert fault(datagram) in ("malformed", "forged")


@given(st.integers(0, 8 * len(GOOD) - 1))
def test_any_flipped_bit_invalidates_the_response(bit):
    changed = bytearray(GOOD)
    changed[bit // 8] ^= 1 << bit % 8
    # The identifier selects the request and is part of the signed data.
    assert fault(bytes(changed)) in ("malformed", "forged")


@given(st.lists(st.tuples(st.integers(0, 255), st.binary(max_size=253)), max_size=12), st.integers(0, 255))
def test_signed_response_with_any_content_is_parsed_or_ignored(attributes, code):
    """A NAS that knows the secret may still send any content."""
    body = b"".join(bytes((number, len(value) + 2)) + value for number, value in attributes)
    head = struct.pack("!BBH", code, 7, 20 + len(body))
    datagram = head + md5(head + REQUEST[4:20] + body + SECRET, usedforsecurity=False).digest() + body
    try:
        found = parse_response(datagram, REQUEST, SECRET, signed=False)
    except DiscardedResponse:
        return
    assert found.code in (DISCONNECT_ACK, DISCONNECT_NAK)
    assert 0 <= found.error_cause < 2**32


@pytest.mark.parametrize("cut", [0, 1, 19, 20, len(GOOD) - 1])
def test_truncated_response_is_ignored(cut):
    assert fault(GOOD[:cut]) == "malformed"


def facts(**values):
    return SessionIdentifiers(
        **({"session_id": "", "mac": "", "user": "", "nas_port": "", "framed_ip": "", "nas_key": ""} | values)
    )


def nas_of(vendor="", **values):
    recipe = find_vendor(vendor).recipe
    packed = encode_request_attributes(installed_dictionary(), recipe, RecipeStep("disconnect"), facts(**values), ())
    return attributes_of(bytes(20) + packed)


def test_session_is_identified_by_attributes_it_has():
    known = {"nas_key": "sw|2001:db8::1", "user": "anna", "session_id": "s1", "mac": "0a1b2c3d4e5f"}
    address = bytes.fromhex("20010db8000000000000000000000001")
    assert nas_of(**known) == [(32, b"sw"), (95, address), (1, b"anna"), (44, b"s1"), (31, b"0A-1B-2C-3D-4E-5F")]
    assert nas_of(nas_key="192.0.2.1") == [(4, bytes((192, 0, 2, 1)))]
    assert nas_of("cisco", **known) == [(44, b"s1"), (31, b"0A-1B-2C-3D-4E-5F")]
    assert nas_of("mikrotik", user="anna", framed_ip="192.0.2.7") == [(1, b"anna"), (8, bytes((192, 0, 2, 7)))]


@pytest.mark.parametrize("user", ["", "x" * 254, "a\\377b", "a\nb"])
def test_name_unknown_to_the_nas_is_omitted(user):
    assert nas_of(user=user, session_id="s1") == [(44, b"s1")]


def test_oversized_packet_is_rejected():
    with pytest.raises(ValueError, match="do not fit into one packet"):
        make_request_packet(RecipeStep("coa"), 1, bytes((26, 255)) * 17 + bytes(253 * 17), at=1, secret=SECRET)
