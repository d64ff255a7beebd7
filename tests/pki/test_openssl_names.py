import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pki import der
from pki.errors import DerDamaged
from pki.openssl_names import SHORT_NAMES, compute_name_hash, format_one_line
from tests.pki import raw_certificates
from tests.pki.openssl import answer, openssl
from tests.run_depth import examples

_CODECS = {
    der.UTF8_STRING: "utf-8",
    der.BMP_STRING: "utf-16-be",
    der.UNIVERSAL_STRING: "utf-32-be",
    der.T61_STRING: "latin-1",
    der.IA5_STRING: "ascii",
    der.PRINTABLE_STRING: "ascii",
    der.NUMERIC_STRING: "ascii",
}
_ALPHABETS = {
    "utf-8": st.characters(codec="utf-8"),
    # Without surrogate pairs, because a BMPString holds single units.
    "utf-16-be": st.characters(max_codepoint=0xFFFF, exclude_categories=["Cs"]),
    "utf-32-be": st.characters(exclude_categories=["Cs"]),
    "latin-1": st.characters(max_codepoint=0xFF),
    "ascii": st.characters(max_codepoint=0x7F),
}
# More whitespace, letters of either case and characters that the one-line form escapes than at random.
_FAVOURITES = st.sampled_from(" \t\n\v\f\r\u00a0\u2003aAzZİß/+\\=,\0\x7f")


@st.composite
def _attributes(draw: st.DrawFn) -> raw_certificates.Attribute:
    kinds = ("COMMON_NAME", "ORGANISATION", "DESCRIPTION", "UNKNOWN_TYPE")
    kind = getattr(raw_certificates, draw(st.sampled_from(kinds)))
    tag = draw(st.sampled_from(sorted(_CODECS)))
    codec = _CODECS[tag]
    characters = st.one_of(_ALPHABETS[codec], _FAVOURITES.filter(lambda c: _encodable(c, codec)))
    text = draw(st.text(characters, max_size=12))
    return kind, tag, text.encode(codec)


_BITS = st.binary(max_size=6).map(lambda bits: (raw_certificates.UNIQUE_IDENTIFIER, der.BIT_STRING, b"\0" + bits))


def _encodable(character: str, codec: str) -> bool:
    try:
        character.encode(codec)
    except UnicodeEncodeError:
        return False
    return True


_NAMES = st.lists(st.lists(_attributes() | _BITS, min_size=1, max_size=3), max_size=4).map(
    lambda parts: raw_certificates.name(*parts)
)


def _hash_and_line(name: bytes) -> tuple[str, str]:
    command = "x509 -inform DER -noout -hash -nameopt compat -subject"
    shown = answer(*command.split(), data=raw_certificates.certificate(name))
    name_hash_shown, _, line = shown.partition("\n")
    return name_hash_shown, re.sub(r"^subject= ?", "", line).removesuffix("\n")


@given(_NAMES)
@settings(max_examples=examples(100), deadline=None)
def test_any_name_has_openssls_hash_and_text(name):
    assert (compute_name_hash(name), format_one_line(name)) == _hash_and_line(name)


def test_names_differing_in_case_and_spaces_share_a_hash():
    def hash_of(value: str, tag: int = der.UTF8_STRING) -> str:
        return compute_name_hash(
            raw_certificates.name([(raw_certificates.COMMON_NAME, tag, value.encode(_CODECS[tag]))])
        )

    assert hash_of("Alpha  Root") == hash_of(" alpha ROOT\t") == hash_of("alpha root", der.BMP_STRING)
    assert hash_of("Alpha Root") != hash_of("AlphaRoot")
    # Outside ASCII, upper and lower case differ.
    assert hash_of("Ä") != hash_of("ä")
    # A NumericString is not equal to a UTF8String.
    assert hash_of("12", der.NUMERIC_STRING) != hash_of("12")


@pytest.mark.parametrize(
    ("tag", "content"),
    [
        (der.UTF8_STRING, b"\xff"),
        (der.UTF8_STRING, b"\xed\xa0\x80"),
        (der.BMP_STRING, b"\x00"),
        (der.BMP_STRING, b"\xd8\x00"),
        (der.UNIVERSAL_STRING, b"\x00\x11\x00\x00"),
    ],
)
def test_string_that_openssl_rejects_is_rejected(tag, content):
    name = raw_certificates.name([(raw_certificates.COMMON_NAME, tag, content)])
    assert openssl("x509", "-inform", "DER", "-noout", "-hash", data=raw_certificates.certificate(name)).returncode != 0
    with pytest.raises(DerDamaged):
        compute_name_hash(name)


@pytest.mark.parametrize(
    "damaged",
    [b"", b"\x30", b"\x30\x05\x31", b"\x31\x00", b"\x30\x80", b"\x30\x02\x31\x00\x00", b"\x30\x04\x31\x02\x30\x00"],
)
def test_damaged_name_is_rejected(damaged):
    with pytest.raises(DerDamaged):
        format_one_line(damaged)


def test_x520_attribute_types_have_openssls_short_names():
    known = {}
    for line in answer("list", "-objects").splitlines():
        short, _, rest = line.partition(" = ")
        known[rest.rpartition(", ")[2]] = short
    assert {oid: known[oid] for oid in SHORT_NAMES} == SHORT_NAMES
    assert {oid for oid in known if re.fullmatch(r"2\.5\.4\.\d+", oid)} <= SHORT_NAMES.keys()
