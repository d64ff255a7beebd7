import pytest

from nac.engine import PolicyReference, references
from nac.engine.references import distinguishes_names
from tests.engine.builders import compare, pinned, policy_of, rule


def test_references_in_an_invalid_document_have_positions():
    document = policy_of(
        rule(
            "a",
            {"any": [compare("endpoint.group", "equals", "printers"), {"not": compare("site.name", "equals", "HQ")}]},
        ),
        rule("b", compare("user.group", "one_of", ["staff", 5, "lab"]), {"verdict": "nonsense"}),
        rule("c", compare("endpoint.group", "starts_with", "floor-")),
        rule("d", compare("endpoint.name", "equals", "printers")),
        pinned_denies=[pinned("p", compare("nas.name", "equals", "sw1"))],
    )
    assert set(references(document)) == {
        PolicyReference("endpoint-group", "printers", "rules[0].when.any[0].value"),
        PolicyReference("site", "HQ", "rules[0].when.any[1].not.value"),
        PolicyReference("user-group", "staff", "rules[1].when.value[0]"),
        PolicyReference("user-group", "lab", "rules[1].when.value[2]"),
        PolicyReference("nas", "sw1", "pinned_denies[0].when.value"),
    }


def test_random_data_has_no_references():
    assert references(None) == references([1, {"attribute": ["x"]}]) == ()
    assert not distinguishes_names(
        [1, {"attribute": ["x"]}, {"attribute": "site.name", "operator": []}], "site", "a", "b"
    )


@pytest.mark.parametrize(
    ("operator", "value", "more", "apart"),
    [
        ("starts_with", "floor-", {}, False),
        ("starts_with", "floor-1", {}, True),
        ("starts_with", "FLOOR-1", {}, False),
        ("starts_with", "FLOOR-1", {"ignore_case": True}, True),
        ("contains", "-2", {}, True),
        ("ends_with", "-3", {}, False),
        ("matches", "floor-[12]", {}, False),
        ("matches", "floor-[13]", {}, True),
        ("equals", "floor-1", {}, True),
        ("one_of", ["floor-1", "floor-2"], {}, False),
        ("exists", None, {}, False),
        # No saved document has this form.
        ("matches", "(", {}, False),
        ("at_least", 1, {}, False),
    ],
)
def test_references_are_distinguished_by_kind(operator, value, more, apart):
    document = policy_of(rule("a", {"not": compare("endpoint.group", operator, value) | more}))
    assert distinguishes_names(document, "endpoint-group", "floor-1", "floor-2") is apart
    assert not distinguishes_names(document, "user-group", "floor-1", "floor-2")
