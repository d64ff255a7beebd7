"""What must not stand in Admit's unlang."""

import re
from pathlib import Path

RADDB = Path(__file__).parents[2] / "radius" / "raddb"
# In 3.2 `&Attribute != value` is false where the attribute is absent: write `!(&Attribute && &Attribute == value)`.
_UNEQUAL = re.compile(r"^\s*(?:els)?if \(.*(?:!=|!~)", re.MULTILINE)


def test_no_condition_compares_by_not_equal():
    conditions = 0
    for path in RADDB.rglob("*"):
        if path.is_file():
            text = path.read_text()
            conditions += len(re.findall(r"^\s*(?:els)?if \(", text, re.MULTILINE))
            assert _UNEQUAL.findall(text) == [], path
    assert conditions > 20


def test_not_equal_is_found():
    assert _UNEQUAL.search("\tif (&control:Auth-Type != Accept) {")
    assert _UNEQUAL.search("\telsif (&State && &User-Name !~ /x/) {")
