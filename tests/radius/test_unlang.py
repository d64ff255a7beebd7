"""Forbidden constructs in Admit's unlang."""

import re
from collections.abc import Iterator
from pathlib import Path

RADDB = Path(__file__).parents[2] / "radius" / "raddb"
_CONDITION = re.compile(r"^\s*(?:els)?if (\(.*\)) \{$", re.MULTILINE)
# In 3.2, a comparison with an absent attribute makes the whole condition false, even after a `!` (radius_evaluate_cond
# in src/main/evaluate.c). Write `!(&Attribute && (&Attribute == value))`.
_UNEQUAL = re.compile(r"!=|!~")
_COMPARED = re.compile(r"(&[\w.:-]+) (?:==|=~|<|>|<=|>=) (&[\w.:-]+)?")


def conditions() -> list[str]:
    return [found for path in RADDB.rglob("*") if path.is_file() for found in _CONDITION.findall(path.read_text())]


def negated_groups(condition: str) -> Iterator[str]:
    """The contents of the parentheses after each `!`."""
    for start in (found.end() for found in re.finditer(r"!\(", condition)):
        depth, end = 1, start
        while depth:
            depth += {"(": 1, ")": -1}.get(condition[end], 0)
            end += 1
        yield condition[start : end - 1]


def unguarded(condition: str) -> list[str]:
    """Attributes that a negated group compares without a check of their presence."""
    return [
        name
        for group in negated_groups(condition)
        for found in _COMPARED.finditer(group)
        for name in filter(None, found.groups())
        if f"{name} && " not in group[: found.start()]
    ]


def test_no_condition_compares_by_not_equal():
    assert len(conditions()) > 20
    assert [each for each in conditions() if _UNEQUAL.search(each)] == []


def test_no_condition_negates_an_absent_attribute():
    assert [each for each in conditions() if unguarded(each)] == []
