"""Hostile policy documents: each is rejected with the positions of its errors, within a limited time."""

import json

import pytest

from nac.engine import PolicyErrors, compile_policy, parse_policy_text
from nac.engine.conditions import MAX_PATTERNS, NameSuggestions
from nac.engine.operators import OPERATORS
from tests.engine.builders import compare, matches, mistakes, policy_of, rule


def test_too_many_rules_are_rejected_before_parsing():
    text = json.dumps({"rules": [rule(f"r{number}", compare("ssid", "equals", "x")) for number in range(100_000)]})
    with pytest.raises(PolicyErrors) as caught:
        parse_policy_text(text)
    assert "256 kB" in str(caught.value)


@pytest.mark.parametrize("entry", [{}, 7, {"when": {}}, {"id": "a"}])
def test_too_many_rules_as_objects_are_rejected_in_time(entry):
    found = mistakes({"rules": [entry] * 100_000})
    assert "256 kB" in found[""] or found["rules"].startswith("too many rules: 100000")


def test_rules_over_the_limit_are_counted_but_not_all_parsed():
    entries = json.loads("[" + ",".join(["{}"] * 80_000) + "]")
    found = mistakes({"rules": entries, "pinned_denies": ["x"] * 400})
    assert found["rules"] == "too many rules: 80400; the limit is 500, including pinned denies"
    assert len(found) <= 202


def test_errors_of_all_parts_are_reported_together():
    found = mistakes(
        {
            "conditions": {"a": {"condition": "a"}, "b": compare("time", "within", {"days": ["x"]})},
            "rules": [
                rule("r", {"all": [compare("ssid", "matches", "("), {"condition": "c"}, compare("x", "equals", 1)]}),
                rule("s", compare("nas.address", "in_network", "10.0.0.1/8")),
            ],
        },
        time_zone="Mars/Olympus",
    )
    assert found.keys() == {
        "site.time_zone",
        "conditions.a",
        "conditions.b.value",
        "rules[0].when.all[0].value",
        "rules[0].when.all[1].condition",
        "rules[0].when.all[2].attribute",
        "rules[1].when.value",
    }


def test_patterns_are_limited():
    patterns = [compare("ssid", "matches", f"^{number}$") for number in range(MAX_PATTERNS + 1)]
    compile_policy(policy_of(rule("r", {"any": patterns[:-1]})))
    assert list(mistakes(policy_of(rule("r", {"any": patterns})))) == [f"rules[0].when.any[{MAX_PATTERNS}].value"]


@pytest.mark.parametrize(
    "pattern", ["(a+,?)+$", "(a|a)*b", ".*.*.*=$", "^(([a-z])+.)+[A-Z]([a-z])+$", "a{0,400}a{400}$"]
)
def test_catastrophic_pattern_returns_at_once(pattern):
    """Python's own regular expressions would practically never finish some of these patterns."""
    assert not matches(compare("endpoint.name", "matches", pattern), endpoint__name="a" * 399 + "!" * 60_000)


def test_pattern_does_not_match_invalid_unicode():
    assert not matches(compare("endpoint.name", "matches", "."), endpoint__name="\ud800")


def test_suggestions_are_limited_to_the_first_unknown_names():
    suggestions = NameSuggestions()
    answers = [suggestions.nearest("ssidd", {"ssid": 1}) for _ in range(30)]
    assert answers == ["; did you mean 'ssid'?"] * 20 + [""] * 10
    assert NameSuggestions().nearest("x" * 1000, {"ssid": 1}) == NameSuggestions().nearest(5, {"ssid": 1}) == ""


def test_costly_comparisons_compile_or_are_rejected_in_time():
    """2,000 comparisons, of which each might imply any other."""
    halves = [
        {"any": [compare("mac", "starts_with", f"{half}{number:04x}") for number in range(990)]}
        for half in ("0a", "0b")
    ]
    compile_policy(policy_of(*(rule(f"r{number}", half) for number, half in enumerate(halves))))


VALUES = {
    "exists": (),
    "one_of": (["x"],),
    "in_domain": ("x.example",),
    "in_network": ("::/0",),
    "matches": (".",),
    "between": ([0, 9],),
} | dict.fromkeys(("greater_than", "less_than", "at_least", "at_most"), (1,))


@pytest.mark.parametrize("operator", [each for each in OPERATORS if each != "within"])
def test_missing_attribute_fails_comparisons_and_passes_not(operator):
    """The expected results are in the table of docs/reference/policy.md."""
    for name in ("radius.X", "mdm.x"):
        condition = compare(name, operator, *VALUES.get(operator, ("x",)))
        for attributes in ({}, {name.replace(".", "__"): ()}):
            assert not matches(condition, **attributes)
            assert matches({"not": condition}, **attributes)
        # With a presence check, the negation matches only devices that have the attribute.
        assert not matches({"all": [compare(name, "exists"), {"not": compare(name, "equals", "y")}]})
