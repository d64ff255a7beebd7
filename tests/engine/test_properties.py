"""What must hold for every policy and every request."""

from hypothesis import given, settings
from hypothesis import strategies as st

from nac.engine import PolicyErrors, Request, compile_policy, decide, references
from nac.engine.attributes import CATALOGUE
from nac.reasons import REASONS
from tests.engine.builders import DENY, PERMIT, compare, policy_of, rule

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=20,
)
# Keys and words of real policies, so that the search gets past the first check.
WORDS = (
    "id",
    "name",
    "when",
    "then",
    "all",
    "any",
    "not",
    "attribute",
    "operator",
    "value",
    "verdict",
    "vlan",
    "acl",
    "downloadable_acl",
    "entries",
    "role",
    "session_timeout",
    "reauthenticate",
    "psk",
    "reply",
    "profile",
    "monitor",
)
policy_like = st.recursive(
    st.none()
    | st.integers(-1, 40)
    | st.sampled_from(("permit", "mac", "equals", "exists", "one_of", ":=", "20", "a\0", "")),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(WORDS), inner, max_size=4),
    max_leaves=30,
)
documents = json_values | st.fixed_dictionaries(
    {},
    optional={
        "profiles": policy_like,
        "rules": st.lists(policy_like),
        "pinned_denies": st.lists(policy_like),
        "fallback": policy_like,
    },
)

NAMES = sorted(CATALOGUE)
texts = st.sampled_from(("corp", "lab", "aabbccddeeff", "mab", "x"))


@st.composite
def comparisons(draw):
    name = draw(st.sampled_from(("ssid", "endpoint.group", "identity", "user.name", "radius.Foo")))
    operator = draw(st.sampled_from(("equals", "starts_with", "ends_with", "contains", "exists", "one_of")))
    if operator == "exists":
        return compare(name, operator)
    return compare(name, operator, draw(st.lists(texts, min_size=1, max_size=3) if operator == "one_of" else texts))


conditions = st.recursive(
    comparisons(),
    lambda inner: st.lists(inner, min_size=1, max_size=3).flatmap(
        lambda parts: st.sampled_from(({"all": parts}, {"any": parts}, {"not": parts[0]}))
    ),
    max_leaves=8,
)
requests = st.dictionaries(st.sampled_from(NAMES) | st.just("radius.Foo"), st.lists(texts, max_size=3).map(tuple))
odd_scalars = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary() | st.lists(st.integers())
)
odd_requests = st.dictionaries(
    st.sampled_from(NAMES), odd_scalars | st.lists(odd_scalars).map(tuple) | st.dictionaries(st.text(), st.integers())
)


@settings(deadline=None)
@given(documents)
def test_any_document_compiles_or_lists_its_mistakes(document):
    references(document)
    try:
        policy = compile_policy(document)
    except PolicyErrors as errors:
        reported = errors.mistakes
    else:
        reported = (decide(policy, Request({}, 0)),)
    assert reported


@settings(deadline=None)
@given(st.lists(conditions, max_size=4), odd_requests)
def test_any_request_is_decided(parts, attributes):
    try:
        policy = compile_policy(policy_of(*(rule(f"r{i}", part) for i, part in enumerate(parts)), fallback=PERMIT))
    except PolicyErrors:
        return
    for trace in (False, True):
        decision = decide(policy, Request(attributes, 0), trace=trace)
        assert decision.reason in REASONS


@settings(deadline=None)
@given(st.lists(conditions, max_size=4), requests)
def test_nothing_is_permitted_unless_a_rule_or_the_fallback_says_so(parts, attributes):
    try:
        policy = compile_policy(policy_of(*(rule(f"r{i}", part, DENY) for i, part in enumerate(parts))))
    except PolicyErrors:
        return
    decision = decide(policy, Request(attributes, 0))
    assert not decision.permitted
    assert decision.reply == ()


def holds(condition, attributes) -> bool:
    """The meaning of a condition, written down once more without closures, folding or shortcuts."""
    if "all" in condition:
        return all(holds(part, attributes) for part in condition["all"])
    if "any" in condition:
        return any(holds(part, attributes) for part in condition["any"])
    if "not" in condition:
        return not holds(condition["not"], attributes)
    seen, wanted = attributes.get(condition["attribute"], ()), condition.get("value")
    tests = {
        "equals": lambda value: value == wanted,
        "one_of": lambda value: value in wanted,
        "starts_with": lambda value: value.startswith(wanted),
        "ends_with": lambda value: value.endswith(wanted),
        "contains": lambda value: wanted in value,
        "exists": lambda value: True,
    }
    return any(tests[condition["operator"]](value) for value in seen)


@settings(deadline=None, max_examples=300)
@given(st.lists(conditions, min_size=1, max_size=5), requests)
def test_first_match_in_order_decides(parts, attributes):
    """Also for policies with unreachable rules: those found must really never be the first to match."""
    document = policy_of(*(rule(f"r{i}", part) for i, part in enumerate(parts)))
    first = next((f"r{i}" for i, part in enumerate(parts) if holds(part, attributes)), "")
    try:
        policy = compile_policy(document)
    except PolicyErrors as errors:
        unreachable = {mistake.place.removesuffix(".when") for mistake in errors.mistakes}
        # Two values at once of an attribute that has one are a contradiction only while requests keep to that.
        if all(
            len(values) <= 1 or CATALOGUE.get(name) is None or CATALOGUE[name].many
            for name, values in attributes.items()
        ):
            assert not first or f"rules[{first[1:]}]" not in unreachable
    else:
        assert decide(policy, Request(attributes, 0)).rule_id == first
        assert decide(policy, Request(attributes, 0), trace=True).rule_id == first


@settings(deadline=None)
@given(conditions, conditions, requests)
def test_order_of_two_rules_that_both_match_matters(one, other, attributes):
    if not (holds(one, attributes) and holds(other, attributes)):
        return
    try:
        there = compile_policy(policy_of(rule("one", one), rule("other", other, DENY)))
        back = compile_policy(policy_of(rule("other", other, DENY), rule("one", one)))
    except PolicyErrors:
        return
    assert decide(there, Request(attributes, 0)).permitted
    assert not decide(back, Request(attributes, 0)).permitted
