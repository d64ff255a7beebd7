"""The compiler finds that a comparison implies another comparison.

For all pairs from small pools, the implication must hold for every value.
"""

from itertools import product

import pytest

from nac.engine.attributes import find_attribute
from nac.engine.conditions import ConditionParser
from nac.engine.implication import build_term, excludes, implies
from nac.engine.mistakes import MistakeReport
from nac.engine.operators import list_operators, takes_ignore_case
from tests.engine import naive
from tests.engine.builders import compare
from tests.engine.strategies import ADDRESSES, DOMAINS, MACS, NETWORKS, PATTERNS, TEXTS

PARTS = ("corp", "Corp", "cor", "o", ".example", "example", "STRASSE", "10.0", "5")
NUMBERS = (4, 5, 6, 12)
RANGES = ([4, 6], [5, 5], [6, 12])
LISTS = {
    "text": (["corp", "Corp"], ["corp", "a.corp.example"], ["corp", "corp2", "straße"]),
    "address": (["10.0.0.1", "10.0.1.255"], ["2001:db8::1", "10.0.0.1"]),
    "mac": ([*MACS[:1], "aa001b21bbcc"],),
    "number": ([4, 5], [5, 6, 12]),
    "open": (["corp", "5"], ["true", "10.0.0.1"], [4, 5], [5, 12]),
}
WINDOWS = (
    *({"from": start, "to": end} for start, end in product(("00:00", "08:00", "22:00"), ("06:00", "18:00", "24:00"))),
    *({"days": days} for days in (["mon"], ["mon", "tue"], ["sun"])),
    *({"days": days, "from": "22:00", "to": "06:00"} for days in (["mon"], ["mon", "sun"])),
    *(
        {"dates": dates}
        for dates in ({"from": "2026-01-05"}, {"to": "2026-01-05"}, {"from": "2026-01-04", "to": "2026-01-06"})
    ),
)
# Every half hour of four days around Monday 2026-01-05.
MOMENTS = range(1767398400, 1767398400 + 4 * 86400, 1800)


def values_of(kind, operator):
    match operator:
        case "in_network":
            return (*NETWORKS, ["10.0.0.0/24", "2001:db8::/32"])
        case "in_domain":
            return (*DOMAINS, ["corp.example", "lab.example"])
        case "matches":
            return PATTERNS
        case "between":
            return RANGES
        case "greater_than" | "less_than" | "at_least" | "at_most":
            return NUMBERS
        case "within":
            return WINDOWS
        case "one_of":
            return LISTS[kind]
        case "equals":
            pools = {"number": NUMBERS, "boolean": (True, False), "mac": MACS, "address": ADDRESSES}
            return pools.get(kind, (*TEXTS, *(NUMBERS if kind == "open" else ()), *((True,) if kind == "open" else ())))
    return ("00:1b", "001b21", "cc", "bb:cc", "c") if kind == "mac" else PARTS


def comparisons_of(attribute):
    for operator in list_operators(attribute):
        if operator == "exists":
            yield compare(attribute.name, operator)
            continue
        for value in values_of(attribute.kind, operator):
            yield compare(attribute.name, operator, value)
            if takes_ignore_case(attribute, operator):
                yield {**compare(attribute.name, operator, value), "ignore_case": True}


def true_values(condition, attribute, zone="UTC"):
    """The values, or times of day, for which the condition holds, as a bit mask."""
    if attribute.kind == "time":
        worlds = [({}, at) for at in MOMENTS]
    else:
        pools = {"mac": MACS, "address": ADDRESSES, "number": (*NUMBERS, 0), "boolean": (True, False)}
        pool = pools.get(attribute.kind, TEXTS)
        if attribute.kind == "open":
            pool = (*TEXTS, *NUMBERS, True, False)
        worlds = [({}, 0), *(({attribute.name: (value,)}, 0) for value in pool)]
    held = (naive.holds(condition, attributes, at=at, zone=zone) for attributes, at in worlds)
    return sum(1 << place for place, holds in enumerate(held) if holds)


@pytest.mark.parametrize(
    "name", ["ssid", "user.name", "mac", "nas.address", "session.count.user", "tls.resumed", "mdm.foo", "time"]
)
def test_implied_comparison_holds_for_every_value(name):
    attribute = find_attribute(name)
    judged = []
    for document in comparisons_of(attribute):
        comparison = ConditionParser(MistakeReport()).parse(document, "")
        assert comparison is not None, document
        judged.append((document, build_term(comparison), true_values(document, attribute)))
    said = 0
    for (one, first, held), (other, second, other_held) in product(judged, judged):
        if implies(first, second):
            said += one is not other
            assert held & ~other_held == 0, f"{one} does not imply {other}"
        if excludes(first, second):
            said += 1
            assert held & other_held == 0, f"{one} does not exclude {other}"
    assert said, "a test of nothing"
