import pytest

from nac.engine.dictionary import DictionaryUnreadable, from_json, to_json


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
