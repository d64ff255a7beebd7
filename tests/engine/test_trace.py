"""Traces of decisions: each evaluated rule, and the deciding comparisons with their values."""

from tests.engine.builders import DENY, compare, decide_on, pinned, policy_of, rule


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
