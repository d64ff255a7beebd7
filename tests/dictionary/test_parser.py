"""Rare keywords of the shared dictionaries, unreadable files, and the stored form of a dictionary."""

import pytest

from nac.engine.dictionary import DictionaryDamaged, DictionaryUnreadable, from_json, read_dictionary, to_json


def read(folder, text, **files):
    for name, content in files.items():
        (folder / name).write_text(content)
    (folder / "dictionary").write_text(text)
    return read_dictionary(folder / "dictionary")


def test_includes_are_read_once_in_place(tmp_path):
    text = "$INCLUDE more\n$INCLUDE more\n$INCLUDE- absent\nVALUE Colour red 0x10 # a comment\n"
    dictionary = read(tmp_path, text, more="ATTRIBUTE\tColour\t200\tuint32\n")
    dictionary.check("colour", "RED", None)
    assert dictionary.values[0, 200] == {"red": 16}


def test_vendor_blocks_and_inline_vendor_names_are_equal(tmp_path):
    dictionary = read(
        tmp_path,
        "VENDOR Acme 9999 format=2,1\nATTRIBUTE Old-Way 1 string Acme\n"
        "BEGIN-VENDOR Acme\nATTRIBUTE New-Way 2 string has_tag,encrypt=2\nEND-VENDOR Acme\n"
        "ATTRIBUTE Plain 200 string\n",
    )
    assert [dictionary.attributes[name].vendor for name in ("old-way", "new-way", "plain")] == [9999, 9999, 0]
    # 2 + 4 + 3 octets of headers, then "x", and one block of 16 octets after tag and salt.
    assert dictionary.encoded_bytes("Old-Way", "x", None) == 10
    assert dictionary.encoded_bytes("New-Way", "x", 1) == 9 + 1 + 2 + 16


def test_later_name_of_a_number_decides_the_type(tmp_path):
    dictionary = read(tmp_path, "ATTRIBUTE Old-Name 200 string\nATTRIBUTE New-Name 200 integer\n")
    with pytest.raises(ValueError, match="Old-Name"):
        dictionary.check("Old-Name", "text", None)
    dictionary.check("Old-Name", "5", None)


def test_value_before_its_attribute_and_value_alias(tmp_path):
    dictionary = read(
        tmp_path,
        "VALUE Colour red 1\nATTRIBUTE Colour 200 integer\nATTRIBUTE Shade 201 integer\nVALUE-ALIAS Shade Colour\n",
    )
    dictionary.check("Shade", "red", None)


def test_fixed_octets_have_one_length(tmp_path):
    dictionary = read(tmp_path, "ATTRIBUTE Key 200 octets[2]\n")
    dictionary.check("Key", "0x0102", None)
    with pytest.raises(ValueError, match="2 octets"):
        dictionary.check("Key", "0x01", None)


@pytest.mark.parametrize(
    "line",
    [
        "ATTRIBUTE X 200 colour",
        "ATTRIBUTE X two string",
        "ATTRIBUTE X",
        "ATTRIBUTE X 200 string Nobody",
        "VALUE Y a",
        "BEGIN-VENDOR Nobody",
        "NONSENSE x",
        "VENDOR Acme 1 layout",
    ],
)
def test_line_unreadable_to_radiusd_is_named(tmp_path, line):
    with pytest.raises(DictionaryDamaged, match="dictionary, line 2"):
        read(tmp_path, f"# first\n{line}\n")


def test_missing_file_and_orphan_value_are_named(tmp_path):
    with pytest.raises(DictionaryDamaged, match="absent"):
        read(tmp_path, "$INCLUDE absent\n")
    with pytest.raises(DictionaryDamaged, match="Colour"):
        read(tmp_path, "VALUE Colour red 1\n")


def test_dictionary_survives_storage(dictionary):
    text = to_json(dictionary)
    stored = from_json(text)
    assert stored.attributes == dictionary.attributes
    assert stored.vendors == dictionary.vendors
    assert to_json(stored) == text
    stored.check("Tunnel-Type", "VLAN", 1)


@pytest.mark.parametrize(
    "text",
    [b"", b"{", b"[]", b"null", b"\xff", b'{"format": 2}', b'{"format": 1}', b'{"format": 1, "attributes": [[1]]}'],
)
def test_unknown_or_damaged_json_is_rejected(text):
    with pytest.raises(DictionaryUnreadable):
        from_json(text)
