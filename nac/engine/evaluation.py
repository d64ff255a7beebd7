"""Decides requests. A pure function of policy and request: no I/O, no clock, deny by default."""

from dataclasses import replace

from nac.engine.conditions import Comparison, Condition
from nac.engine.decision import ComparisonTrace, Decision, PolicyRequest, RuleTrace
from nac.engine.matchers import MISSING, Attributes
from nac.engine.policy import Policy

# The decision about a request with values of a wrong type, such as a number instead of a tuple.
_MALFORMED_DECISION = Decision()


def decide(policy: Policy, request: PolicyRequest, *, trace: bool = False) -> Decision:
    """Apply pinned denies, rules and fallback; the first match wins. Never raises.

    With `trace`, the decision contains every evaluated rule, with the comparisons that decided whether the rule
    matched.
    """
    attributes = request.attributes
    try:
        if policy.complete is not None:
            attributes = policy.complete(attributes, request.at)
        if trace:
            return _decide_with_trace(policy, attributes)
        return policy.decisions.of(attributes.get("nas.vendor", MISSING), policy.first(attributes))
    except (TypeError, AttributeError):
        return _MALFORMED_DECISION


def _decide_with_trace(policy: Policy, attributes: Attributes) -> Decision:
    tried: list[RuleTrace] = []
    vendor = attributes.get("nas.vendor", MISSING)
    for index, rule in enumerate(policy.rules):
        matched = rule.when.match(attributes)
        because = tuple(_decisive_comparisons(rule.when, attributes, matched))
        tried.append(RuleTrace(rule.id, rule.name, rule.pinned, matched, because))
        if matched:
            return replace(policy.decisions.of(vendor, index), trace=tuple(tried))
    return replace(policy.decisions.of(vendor, -1), trace=tuple(tried))


def _decisive_comparisons(condition: Condition, attributes: Attributes, held: bool) -> list[ComparisonTrace]:
    """Return the comparisons that decided whether `condition` matched."""
    if isinstance(condition, Comparison):
        name = condition.attribute.name
        seen = condition.seen(attributes)
        return [ComparisonTrace(condition.place, name, condition.operator, condition.value, seen, held)]
    if condition.how == "not":
        return _decisive_comparisons(condition.children[0], attributes, not held)
    if held == (condition.how == "all"):
        return [because for child in condition.children for because in _decisive_comparisons(child, attributes, held)]
    # One child decides: the first mismatch of "all", the first match of "any".
    child = next(child for child in condition.children if child.match(attributes) == held)
    return _decisive_comparisons(child, attributes, held)
