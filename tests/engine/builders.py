"""Short builders for policies."""

import pytest

from nac.engine import Decision, Policy, PolicyErrors, PolicyRequest, compile_policy, decide

PERMIT = {"verdict": "permit"}
DENY = {"verdict": "deny"}


def compare(attribute, operator, *value):
    return {"attribute": attribute, "operator": operator} | ({"value": value[0]} if value else {})


def rule(identifier, when, then=None):
    return {"id": identifier, "name": f"rule {identifier}", "when": when, "then": then or PERMIT}


def pinned(identifier, when):
    return {"id": identifier, "name": f"pinned {identifier}", "when": when}


def policy_of(*rules, **sections):
    return {"rules": list(rules), **sections}


def decide_on(policy: Policy | dict, *, trace: bool = False, **attributes) -> Decision:
    """Decide on attributes that are keyword arguments, with "__" for a dot: endpoint__group=("printers",)."""
    compiled = policy if isinstance(policy, Policy) else compile_policy(policy)
    values = {
        name.replace("__", "."): value if isinstance(value, tuple) else (value,) for name, value in attributes.items()
    }
    return decide(compiled, PolicyRequest(values, 0), trace=trace)


def matches(condition, **attributes) -> bool:
    return decide_on(policy_of(rule("r", condition)), **attributes).permitted


def mistakes(document, **options) -> dict[str, str]:
    """The errors of an invalid policy: {position: message}."""
    with pytest.raises(PolicyErrors) as caught:
        compile_policy(document, **options)
    return {mistake.place: mistake.message for mistake in caught.value.mistakes}
