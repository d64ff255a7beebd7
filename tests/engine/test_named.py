"""Named conditions, also with cycles or exponential growth, and the names of objects that a policy uses."""

import json

import pytest

from nac.engine import PolicyReference, compile_policy, parse_policy_text, references
from nac.engine.references import distinguishes_names
from tests.engine.builders import compare, decide_on, mistakes, pinned, policy_of, rule

SSID = compare("ssid", "equals", "corp")
MAC = compare("mac", "exists")


def refer(name):
    return {"condition": name}


def test_explanation_links_to_the_definition():
    policy = policy_of(rule("r", refer("at-work")), conditions={"at-work": {"all": [SSID, MAC]}})
    (cause,) = decide_on(policy, trace=True, ssid="corp").trace[0].because
    assert cause.place == "conditions['at-work'].all[1]"


def test_unused_condition_is_checked_and_allowed():
    compile_policy(policy_of(rule("r", SSID), conditions={"spare": MAC}))
    assert list(mistakes({"conditions": {"spare": compare("colour", "exists")}})) == ["conditions.spare.attribute"]


def test_error_in_a_definition_is_reported_once():
    wrong = policy_of(
        *(rule(f"r{number}", {"all": [refer("bad"), compare("ssid", "equals", str(number))]}) for number in range(3)),
        conditions={"bad": compare("ssid", "equals", 5), "user": refer("bad")},
    )
    assert list(mistakes(wrong)) == ["conditions.bad.value"]


def test_cycle_is_reported_as_a_whole():
    found = mistakes(
        policy_of(
            rule("r", refer("c")),
            conditions={
                "a": {"any": [MAC, {"not": refer("b")}]},
                "b": {"all": [refer("c")]},
                "c": refer("a"),
                "self": {"not": refer("self")},
                "beside": {"any": [refer("a"), compare("ssid", "equals", 5)]},
            },
        )
    )
    assert found.keys() == {"conditions.a", "conditions.self", "conditions.beside.any[1].value"}
    assert "a -> b -> c -> a;" in found["conditions.a"]
    assert "self -> self;" in found["conditions.self"]


def test_unknown_name_is_rejected_with_the_nearest_known():
    found = mistakes(
        policy_of(rule("r", refer("ofice-hours")), rule("s", refer("x")), conditions={"office-hours": MAC})
    )
    assert found["rules[0].when.condition"].endswith("did you mean 'office-hours'?")
    assert "unknown condition 'x'" in found["rules[1].when.condition"]
    assert list(mistakes(policy_of(rule("r", refer("x"))))) == ["rules[0].when.condition"]


@pytest.mark.parametrize(
    ("conditions", "place"),
    [
        ([], "conditions"),
        ("x", "conditions"),
        ({"": MAC}, "conditions['']"),
        ({"a b": MAC}, "conditions['a b']"),
        ({"x" * 65: MAC}, f"conditions.{'x' * 65}"),
        ({"a": {"condition": 5}}, "conditions.a.condition"),
        ({"a": {"condition": ["a"]}}, "conditions.a.condition"),
        ({"a": {"condition": "b", "not": MAC}, "b": MAC}, "conditions.a"),
        ({"a": {"condition": "b", "value": 1}, "b": MAC}, "conditions.a.value"),
        ({f"n{number}": MAC for number in range(501)}, "conditions"),
    ],
)
def test_invalid_definitions_are_rejected_at_their_position(conditions, place):
    assert list(mistakes({"conditions": conditions})) == [place]


def test_depth_limit_includes_references():
    def chain(length):
        return {"n0": MAC} | {f"n{number}": refer(f"n{number - 1}") for number in range(1, length)}

    # A reference counts as a level, and the referenced condition counts as a level too.
    compile_policy(policy_of(rule("r", refer("n8")), conditions=chain(9)))
    assert list(mistakes(policy_of(rule("r", refer("n9")), conditions=chain(10)))) == ["rules[0].when.condition"]
    assert list(mistakes({"conditions": chain(400)})) == ["conditions.n10.condition"]


def test_condition_limit_includes_references():
    wide = {"any": [compare("ssid", "equals", str(number)) for number in range(498)]}
    compile_policy(policy_of(rule("r", {"any": [refer("wide")] * 3}), conditions={"wide": wide}))
    found = mistakes(policy_of(rule("r", {"any": [refer("wide")] * 4}), conditions={"wide": wide}))
    assert list(found) == ["rules[0].when.any[3].condition"]
    assert "2000 conditions" in found["rules[0].when.any[3].condition"]
    across = [
        rule(f"r{number}", {"all": [refer("wide"), compare("ssid", "equals", str(number))]}) for number in range(4)
    ]
    assert "rules[3].when.all[0].condition" in mistakes(policy_of(*across, conditions={"wide": wide}))


@pytest.mark.parametrize("factor", [2, 1000])
def test_exponential_references_are_rejected_unexpanded(factor):
    names = {"n0": MAC} | {f"n{number}": {"all": [refer(f"n{number - 1}")] * factor} for number in range(1, 400)}
    if factor > 2:
        names = dict(list(names.items())[:2])
        names["n2"] = {"any": [refer("n1")] * 900}
    found = mistakes({"conditions": names, "rules": [rule("r", refer(f"n{len(names) - 1}"))]})
    assert all(place.startswith("conditions.n") for place in found)
    assert all("deeper" in message or "2000 conditions" in message for message in found.values())


def test_number_of_reported_cycles_is_limited():
    names = {f"n{number}": {"any": [refer(f"n{other}") for other in range(0, 400, 37)]} for number in range(500)}
    document = parse_policy_text(json.dumps({"conditions": names}))
    found = mistakes(document)
    assert 1 <= len(found) <= 201


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
        conditions={"ours": compare("endpoint.group", "equals", "plotters")},
    )
    assert set(references(document)) == {
        PolicyReference("endpoint-group", "printers", "rules[0].when.any[0].value"),
        PolicyReference("site", "HQ", "rules[0].when.any[1].not.value"),
        PolicyReference("user-group", "staff", "rules[1].when.value[0]"),
        PolicyReference("user-group", "lab", "rules[1].when.value[2]"),
        PolicyReference("nas", "sw1", "pinned_denies[0].when.value"),
        PolicyReference("endpoint-group", "plotters", "conditions.ours.value"),
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
