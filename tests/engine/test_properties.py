"""Properties that hold for every policy and every request."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nac.engine import PolicyErrors, PolicyRequest, compile_policy, decide, references
from nac.engine.attributes import ATTRIBUTE_CATALOGUE
from nac.engine.reasons import REASONS
from tests.engine import naive
from tests.engine.builders import DENY, policy_of, rule
from tests.engine.strategies import MOMENTS, ZONES, comparisons, nested, policies, requests
from tests.run_depth import examples

pytestmark = pytest.mark.early

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=20,
)
# Keys and words of real policies, so that the search passes the first check.
WORDS = (
    *("id", "name", "when", "then", "all", "any", "not", "attribute", "operator", "value", "verdict", "vlan"),
    *("acl", "downloadable_acl", "entries", "role", "session_timeout", "reauthenticate", "psk"),
    *("reply", "condition", "ignore_case", "conditions", "profile", "monitor"),
)
policy_like = st.recursive(
    st.none()
    | st.integers(-1, 40)
    | st.sampled_from(
        ("permit", "mac", "time", "mdm.x", "equals", "exists", "one_of", "matches", "within", ":=", "20", "a\0", "")
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(WORDS), inner, max_size=4),
    max_leaves=30,
)
documents = json_values | st.fixed_dictionaries(
    {},
    optional={
        "conditions": policy_like,
        "profiles": policy_like,
        "rules": st.lists(policy_like),
        "pinned_denies": st.lists(policy_like),
        "fallback": policy_like,
    },
)

NAMES = [*sorted(ATTRIBUTE_CATALOGUE), "radius.Foo", "mdm.foo"]
odd_scalars = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary() | st.lists(st.integers())
)
odd_requests = st.dictionaries(
    st.sampled_from(NAMES), odd_scalars | st.lists(odd_scalars).map(tuple) | st.dictionaries(st.text(), st.integers())
)


@settings(deadline=None)
@given(documents)
def test_any_document_compiles_or_lists_its_errors(document):
    references(document)
    try:
        policy = compile_policy(document)
    except PolicyErrors as errors:
        reported = errors.mistakes
    else:
        reported = (decide(policy, PolicyRequest({}, 0)),)
    assert reported


@settings(deadline=None, max_examples=examples(300))
@given(policies(), odd_requests, st.integers(-(2**70), 2**70))
def test_any_request_gets_the_same_decision_each_time(document, attributes, at):
    policy = compile_policy(document, refuse_unreachable=False)
    for trace in (False, True):
        decision = decide(policy, PolicyRequest(attributes, at), trace=trace)
        assert decision.reason in REASONS
        assert decision == decide(policy, PolicyRequest(attributes, at), trace=trace)


@settings(deadline=None)
@given(policies(), requests, MOMENTS)
def test_permit_needs_a_rule_or_the_fallback(document, attributes, at):
    denying = {"conditions": document["conditions"], "rules": [{**rule, "then": DENY} for rule in document["rules"]]}
    decision = decide(compile_policy(denying, refuse_unreachable=False), PolicyRequest(attributes, at))
    assert not decision.permitted
    assert decision.reply == ()


@settings(deadline=None, max_examples=examples(1000))
@given(policies(), requests, MOMENTS, ZONES)
def test_engine_and_naive_implementation_agree(document, attributes, at, zone):
    policy = compile_policy(document, time_zone=zone, refuse_unreachable=False)
    first = naive.first_rule(document, attributes, at=at, zone=zone)
    request = PolicyRequest(attributes, at)
    decision = decide(policy, request)
    assert decision.rule_id == first
    verdicts = {rule["id"]: rule["then"]["verdict"] for rule in document["rules"]}
    assert decision.verdict == verdicts.get(first, document["fallback"]["verdict"])
    assert decide(policy, request, trace=True).rule_id == first
    # A cell reads only the attributes that the policy uses, and stores only the deciding part of the policy.
    read = {name: values for name, values in attributes.items() if name in policy.reads}
    assert decide(policy.without_trace(), PolicyRequest(read, at)) == decision


@settings(deadline=None, max_examples=examples(500))
@given(policies(), st.lists(requests, min_size=1, max_size=8), MOMENTS)
def test_unreachable_rule_is_never_the_first_match(document, several, at):
    try:
        compile_policy(document)
    except PolicyErrors as errors:
        unreachable = {mistake.place.removesuffix(".when") for mistake in errors.mistakes}
        for attributes in several:
            first = naive.first_rule(document, attributes, at=at)
            assert not first or f"rules[{first[1:]}]" not in unreachable


@settings(deadline=None)
@given(nested(comparisons()), nested(comparisons()), requests, MOMENTS)
def test_order_of_two_matching_rules_matters(one, other, attributes, at):
    if not (naive.holds(one, attributes, at=at) and naive.holds(other, attributes, at=at)):
        return
    there = policy_of(rule("one", one), rule("other", other, DENY))
    back = policy_of(rule("other", other, DENY), rule("one", one))
    request = PolicyRequest(attributes, at)
    assert decide(compile_policy(there, refuse_unreachable=False), request).permitted
    assert not decide(compile_policy(back, refuse_unreachable=False), request).permitted
