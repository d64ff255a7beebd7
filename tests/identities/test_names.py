"""User names with or without a realm."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nac.cellformat.identity_names import UserName, name_for_realms, strip_realm

REALMS = ("corp", "corp.example")


@pytest.mark.parametrize(
    ("name", "left"),
    [
        ("anna", "anna"),
        (r"CORP\anna", "anna"),
        ("anna@Corp.Example", "anna"),
        (r"corp\anna@corp.example", "anna"),
        (r"OTHER\anna", r"OTHER\anna"),
        ("anna@other.example", "anna@other.example"),
        (r"other\anna@corp.example", r"other\anna@corp.example"),
        ("anna@corp.example@other.example", "anna@corp.example@other.example"),
        ("@corp.example", "@corp.example"),
        ("corp\\", "corp\\"),
        ("", ""),
        ("corp\\" * 1_000 + "anna", "anna"),
    ],
)
def test_own_realms_are_stripped_and_others_stay(name, left):
    assert strip_realm(name, REALMS) == left
    assert strip_realm(name, ()) == name


@given(st.lists(st.sampled_from(["anna", "\\", "@", "corp", "corp.example", "other"]), max_size=8).map("".join))
def test_stripped_name_has_no_realm(name):
    left = strip_realm(name, REALMS)
    assert strip_realm(left, REALMS) == left


@pytest.mark.parametrize(
    ("realms", "own", "found"),
    [
        ((), (), UserName(r"CORP\anna", r"CORP\anna")),
        ((), REALMS, UserName(r"CORP\anna", "anna")),
        (("corp",), (), UserName(r"CORP\anna", "anna")),
        (("corp",), REALMS, UserName(r"CORP\anna", "anna")),
        (("other",), REALMS, None),
    ],
)
def test_source_is_queried_without_its_realm(realms, own, found):
    assert name_for_realms(r"CORP\anna", realms, own) == found
