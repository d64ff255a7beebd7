import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nac.kit.secrets import (
    RawKey,
    SealedForAnotherKey,
    SealedValueMalformed,
    SealedValueRefused,
    Sealer,
    SecretsError,
    rewrap,
)
from tests.run_depth import examples

_KEY = RawKey(bytes(range(32)))
_OTHER = RawKey(bytes(32))
_SECRET = b"radius secret of alpha"


@given(
    plaintext=st.binary(max_size=300), context=st.text(min_size=1, max_size=40, alphabet=st.characters(codec="utf-8"))
)
@settings(max_examples=examples(50), deadline=None)
def test_sealed_value_opens_only_in_its_context(plaintext, context):
    sealed = Sealer(_KEY).seal(plaintext, context)
    assert Sealer(_KEY).open(sealed, context) == plaintext
    with pytest.raises(SealedValueRefused):
        Sealer(_KEY).open(sealed, context + "x")


def test_equal_values_seal_differently():
    sealer = Sealer(_KEY)
    sealed = {sealer.seal(_SECRET, "slot:1") for _ in range(100)}
    assert len(sealed) == 100
    assert not any(_SECRET in value for value in sealed)


def test_other_master_key_is_named_in_the_error():
    sealed = Sealer(_KEY).seal(_SECRET, "slot:1")
    with pytest.raises(SealedForAnotherKey, match=_KEY.key_id.hex()) as caught:
        Sealer(_OTHER).open(sealed, "slot:1")
    assert caught.value.place == "slot:1"
    assert "ADMIT_MASTER_KEY_FILE" in caught.value.remedy


def test_every_truncation_is_rejected():
    sealed = Sealer(_KEY).seal(b"", "slot:1")
    for length in range(len(sealed)):
        with pytest.raises(SealedValueMalformed):
            Sealer(_KEY).open(sealed[:length], "slot:1")
    longer = Sealer(_KEY).seal(_SECRET, "slot:1")
    with pytest.raises(SealedValueRefused):
        Sealer(_KEY).open(longer[:-1], "slot:1")


def test_every_flipped_bit_is_rejected():
    sealed = Sealer(_KEY).seal(_SECRET, "slot:1")
    for index in range(len(sealed)):
        damaged = bytearray(sealed)
        damaged[index] ^= 0x40
        with pytest.raises(SecretsError):
            Sealer(_KEY).open(bytes(damaged), "slot:1")


def test_value_of_a_later_format_is_rejected():
    with pytest.raises(SealedValueMalformed, match="format"):
        Sealer(_KEY).open(b"\x02" + Sealer(_KEY).seal(_SECRET, "slot:1")[1:], "slot:1")


def test_rotation_opens_and_rewraps_old_values():
    sealed = Sealer(_KEY).seal(_SECRET, "slot:1")
    during = Sealer(_OTHER, retired=(_KEY,))
    assert during.open(sealed, "slot:1") == _SECRET
    # A retired key never seals.
    assert Sealer(_OTHER).open(during.seal(_SECRET, "slot:1"), "slot:1") == _SECRET
    moved = rewrap(sealed, old=_KEY, new=_OTHER)
    assert Sealer(_OTHER).open(moved, "slot:1") == _SECRET
    assert moved[-len(_SECRET) - 16 :] == sealed[-len(_SECRET) - 16 :]
    # An interrupted rotation can be run again.
    assert rewrap(moved, old=_KEY, new=_OTHER) == moved
    with pytest.raises(SealedForAnotherKey):
        rewrap(moved, old=_KEY, new=RawKey(b"\1" * 32))
    with pytest.raises(SealedForAnotherKey):
        Sealer(_KEY).open(moved, "slot:1")


def test_representations_hide_keys_and_plaintexts():
    key = bytes(range(32))
    sealer = Sealer(_KEY)
    shown = [repr(_KEY), repr(sealer)]
    sealed = bytearray(sealer.seal(_SECRET, "slot:1"))
    sealed[-1] ^= 1
    with pytest.raises(SealedValueRefused) as caught:
        sealer.open(bytes(sealed), "slot:1")
    shown += [repr(caught.value), str(caught.value)]
    for text in shown:
        assert key.hex() not in text
        assert repr(key)[2:-1] not in text
        assert _SECRET.decode() not in text


def test_context_must_name_a_place():
    with pytest.raises(ValueError, match="context"):
        Sealer(_KEY).seal(_SECRET, "")
    with pytest.raises(ValueError, match="32 bytes"):
        RawKey(b"short")
