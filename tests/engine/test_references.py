from nac.engine import Reference, references
from tests.engine.builders import compare, pinned, policy_of, rule


def test_references_are_found_with_their_places_in_a_wrong_document_too():
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
        Reference("endpoint-group", "printers", "rules[0].when.any[0].value"),
        Reference("site", "HQ", "rules[0].when.any[1].not.value"),
        Reference("user-group", "staff", "rules[1].when.value[0]"),
        Reference("user-group", "lab", "rules[1].when.value[2]"),
        Reference("nas", "sw1", "pinned_denies[0].when.value"),
    }


def test_references_of_anything_are_none():
    assert references(None) == references([1, {"attribute": ["x"]}]) == ()
