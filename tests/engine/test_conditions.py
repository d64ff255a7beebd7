"""Requests, conditions in rules with a near miss beside each match, and traces of decisions.

A trace has each evaluated rule, and the deciding comparisons with their values.
"""

import pytest

from nac.engine import PolicyRequest, RequestErrors, compile_policy, decide, parse_request
from tests.engine.builders import DENY, compare, decide_on, matches, pinned, policy_of, rule


def test_all_and_any_of_every_length():
    for count in range(1, 7):
        groups = [f"g{index}" for index in range(count)]
        parts = [compare("endpoint.group", "equals", group) for group in groups]
        assert matches({"all": parts}, endpoint__group=tuple(groups))
        assert not matches({"all": parts}, endpoint__group=tuple(groups[1:]))
        assert matches({"any": parts}, endpoint__group=(groups[-1],))
        assert not matches({"any": parts}, endpoint__group=("other",))
    assert matches({"all": []})


def test_nas_vendor_matches_any_of_its_aliases():
    for written in ("cisco", "Cisco", "IOS XE", "catalyst"):
        assert matches(compare("nas.vendor", "equals", written), nas__vendor="cisco")
        assert matches(compare("nas.vendor", "one_of", ["aruba", written]), nas__vendor="cisco")
        assert not matches(compare("nas.vendor", "equals", written), nas__vendor="cisco-wlc")
    assert matches(compare("nas.vendor", "equals", "Acme Switches"), nas__vendor="acme switches")
    assert matches(compare("nas.vendor", "starts_with", "CIS"), nas__vendor="cisco")


def test_boolean_is_not_a_number():
    assert matches(compare("tls.resumed", "equals", True), tls__resumed=True)
    assert not matches(compare("tls.resumed", "equals", True), tls__resumed=1)
    assert not matches(compare("tls.resumed", "equals", False), tls__resumed=0)
    assert not matches(compare("radius.X", "greater_than", 0), radius__X=True)


def test_value_of_another_type_does_not_match():
    for odd in (None, 1.5, b"corp", ["corp"], ("corp",), 7):
        assert not matches(compare("ssid", "equals", "corp"), ssid=(odd,))
        assert not matches(compare("ssid", "one_of", ["corp", "x"]), ssid=(odd,))
        assert not matches(compare("ssid", "contains", "c"), ssid=(odd,))
        assert not matches(compare("user.name", "equals", "corp"), user__name=(odd,))
        assert not matches(compare("user.name", "one_of", ["corp", "x"]), user__name=(odd,))


def test_request_with_a_wrong_type_is_denied_without_error():
    by_name = policy_of(rule("r", compare("user.name", "starts_with", "a")), fallback={"verdict": "permit"})
    for broken in (None, 7):
        decision = decide(compile_policy(by_name), PolicyRequest({"user.name": broken}, 0))
        assert (decision.verdict, decision.reason) == ("deny", "internal-error")


def explain(condition, **attributes):
    """The result of one condition: (matched, [(position below `when`, value)])."""
    step = decide_on(policy_of(rule("r", condition)), trace=True, **attributes).trace[0]
    return step.matched, [(cause.place.removeprefix("rules[0].when"), cause.seen) for cause in step.because]


SSID = compare("ssid", "equals", "corp")
LAB = compare("endpoint.group", "equals", "lab")


def test_trace_lists_rules_up_to_the_match():
    policy = policy_of(
        rule("a", SSID),
        rule("b", LAB),
        rule("c", compare("mac", "exists")),
        pinned_denies=[pinned("p", compare("tls.version", "exists"))],
    )
    decision = decide_on(policy, trace=True, ssid="guest", endpoint__group=("lab", "x"))

    assert [(step.rule_id, step.pinned, step.matched) for step in decision.trace] == [
        ("p", True, False),
        ("a", False, False),
        ("b", False, True),
    ]
    failed = decision.trace[1].because[0]
    assert (failed.place, failed.attribute, failed.operator, failed.value, failed.seen, failed.matched) == (
        "rules[0].when",
        "ssid",
        "equals",
        "corp",
        ("guest",),
        False,
    )


def test_fallback_trace_lists_every_rule():
    decision = decide_on(policy_of(rule("a", SSID), rule("b", LAB, DENY)), trace=True)
    assert decision.reason == "fallback-denied"
    assert [step.matched for step in decision.trace] == [False, False]
    assert decision.trace[0].because[0].seen == ()


def test_all_shows_its_first_failure_and_any_shows_all():
    assert explain({"all": [SSID, LAB]}, ssid="corp") == (False, [(".all[1]", ())])
    assert explain({"any": [SSID, LAB]}, ssid="x") == (False, [(".any[0]", ("x",)), (".any[1]", ())])


def test_match_shows_the_comparison_that_held():
    assert explain({"any": [SSID, LAB]}, endpoint__group="lab") == (True, [(".any[1]", ("lab",))])
    assert explain({"all": [SSID, LAB]}, ssid="corp", endpoint__group="lab") == (
        True,
        [(".all[0]", ("corp",)), (".all[1]", ("lab",))],
    )


def test_not_shows_the_comparison_that_held_inside():
    assert explain({"not": {"any": [SSID, LAB]}}, endpoint__group="lab") == (False, [(".not.any[1]", ("lab",))])


def test_trace_is_absent_unless_requested():
    assert decide_on(policy_of(rule("a", SSID)), ssid="corp").trace == ()


def test_request_is_normalized_for_comparison():
    request = parse_request(
        {"mac": "AA-BB-CC-DD-EE-FF", "nas.address": "2001:DB8::0:1", "endpoint.group": ["a", "b"], "tls.resumed": True},
        at=7,
    )
    assert request.at == 7
    assert request.attributes == {
        "mac": ("aabbccddeeff",),
        "nas.address": ("2001:db8::1",),
        "endpoint.group": ("a", "b"),
        "tls.resumed": (True,),
    }


def test_invalid_request_is_rejected_with_every_position():
    with pytest.raises(RequestErrors) as caught:
        parse_request({"mac": "zz", "colour": 1, "ssid": ["a", "b"], "tls.resumed": "yes", "identity": 5}, at=0)
    places = [mistake.place for mistake in caught.value.mistakes]
    assert places == ["mac[0]", "colour", "ssid", "tls.resumed[0]", "identity[0]"]
    with pytest.raises(RequestErrors):
        parse_request([], at=0)


@pytest.mark.parametrize("text", ["a\0b", "\ud800"])
def test_unstorable_text_is_rejected_at_its_position(text):
    with pytest.raises(RequestErrors) as caught:
        parse_request({"user.name": ["ann", text], "mac": text}, at=0)
    assert [mistake.place for mistake in caught.value.mistakes] == ["user.name", "user.name[1]", "mac[0]"]
