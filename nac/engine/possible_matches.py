"""Partial evaluation of conditions: whether they can match if only some attributes are known."""

from nac.engine.conditions import Comparison, Condition
from nac.engine.matchers import Attributes


def could_match(condition: Condition, known: Attributes) -> bool:
    """Whether it matches some request in which the attributes of `known` have these values."""
    return _possible_results(condition, known)[0]


def _possible_results(condition: Condition, known: Attributes) -> tuple[bool, bool]:
    """Return whether it can match and whether it can fail; both are true if unknown."""
    if isinstance(condition, Comparison):
        if condition.attribute.name not in known:
            return True, True
        holds = condition.match(known)
        return holds, not holds
    children = [_possible_results(child, known) for child in condition.children]
    if condition.how == "not":
        could_hold, could_fail = children[0]
        return could_fail, could_hold
    combined, other = (all, any) if condition.how == "all" else (any, all)
    return combined(could for could, _ in children), other(could for _, could in children)
