"""Conversion of BER to the form of DER."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pki import der
from pki.cms import convert_to_der
from pki.errors import DerDamaged
from tests.pki.openssl import openssl
from tests.run_depth import examples


@pytest.mark.parametrize(
    ("ber", "converted"),
    [
        # Definite lengths that use too many octets.
        ("30 81 05 02 82 00 01 05", "30 03 02 01 05"),
        ("30 80 02 01 05 00 00", "30 03 02 01 05"),
        ("30 80 A0 80 02 01 05 00 00 00 00", "30 05 A0 03 02 01 05"),
        # End-of-contents octets inside a primitive element are content.
        ("30 80 04 02 00 00 00 00", "30 04 04 02 00 00"),
        # Strings in chunks, in nested chunks, and in no chunk.
        ("24 80 04 01 01 04 02 02 03 00 00", "04 03 01 02 03"),
        ("24 0A 04 01 01 24 80 04 01 02 00 00", "04 02 01 02"),
        ("24 80 00 00", "04 00"),
        # The order of a SET does not change, because a signature may cover it.
        ("31 80 02 01 05 02 01 01 00 00", "31 06 02 01 05 02 01 01"),
    ],
)
def test_ber_is_converted(ber, converted):
    assert convert_to_der(bytes.fromhex(ber)) == bytes.fromhex(converted)


@pytest.mark.parametrize(
    ("ber", "error"),
    [
        ("", "the data ends"),
        ("30", "the data ends"),
        ("30 80 02 01 05", "the data ends"),
        ("30 80 02 01 05 00", "the data ends"),
        ("04 80 01 00 00", "a primitive element has an indefinite length"),
        ("24 80 02 01 05 00 00", "tag 0x02 instead of 0x04"),
        ("30 03 02 01 05 00", "1 bytes follow the element"),
        ("1F 81 01 00", "tag of several bytes"),
        ("30 80 " * 33 + "00 00" * 33, "nested more than 32 deep"),
    ],
)
def test_damaged_ber_is_rejected(ber, error):
    with pytest.raises(DerDamaged, match=error):
        convert_to_der(bytes.fromhex(ber))


_primitives = st.tuples(
    st.sampled_from([der.INTEGER, der.OCTET_STRING, der.UTF8_STRING, 0x80]), st.binary(max_size=300)
)
_elements = st.recursive(
    _primitives, lambda members: st.tuples(st.sampled_from([0x30, 0x31, 0xA0]), st.lists(members, max_size=4))
)


def encode_definite(element) -> bytes:
    tag, content = element
    return der.encode(tag, content if isinstance(content, bytes) else b"".join(map(encode_definite, content)))


def encode_indefinite(element) -> bytes:
    tag, content = element
    if not isinstance(content, bytes):
        return bytes((tag, 0x80)) + b"".join(map(encode_indefinite, content)) + b"\0\0"
    if tag == der.OCTET_STRING:
        chunks = (der.encode(tag, content[at : at + 100]) for at in range(0, len(content), 100))
        return b"\x24\x80" + b"".join(chunks) + b"\0\0"
    return der.encode(tag, content)


@given(_elements)
@settings(max_examples=examples(200), deadline=None)
def test_both_forms_of_lengths_become_the_same_der(element):
    expected = encode_definite(element)
    assert convert_to_der(encode_indefinite(element)) == expected
    assert convert_to_der(expected) == expected


@given(st.binary(max_size=200))
@settings(max_examples=examples(300), deadline=None)
def test_random_bytes_raise_only_the_documented_error(data):
    try:
        converted = convert_to_der(data)
    except DerDamaged:
        return
    assert convert_to_der(converted) == converted


def test_converted_message_equals_openssl_der():
    """OpenSSL streams in BER, and parses the converted message like its own DER."""
    content = bytes(range(256)) * 100
    streamed = run_cms("-data_create", "-stream", "-outform", "DER", data=content)
    assert streamed[1] == 0x80
    assert run_cms("-data_out", "-inform", "DER", data=convert_to_der(streamed)) == content


def run_cms(*arguments: str, data: bytes) -> bytes:
    result = openssl("cms", "-binary", *arguments, data=data)
    assert result.returncode == 0, result.stderr.decode()
    return result.stdout
