"""Finds conditions that can never decide anything: always true, never true, or taken already by an earlier rule.

The test is sound, not complete: what it reports is unreachable; a contradiction that takes reasoning about prefixes or
numbers is not found.
"""

from collections.abc import Hashable, Iterable

from nac.engine.conditions import Comparison, Condition

ALWAYS = ("constant", True)
NEVER = ("constant", False)
Canonical = tuple[str, Hashable]


def canonical(condition: Condition) -> Canonical:
    """Equal for conditions that are equal up to order, repetition, nesting of the same kind and double negation."""
    if isinstance(condition, Comparison):
        return _comparison(condition.attribute.name, condition.operator, condition.value)
    parts = [canonical(child) for child in condition.children]
    if condition.how == "not":
        return _negated(parts[0])
    if condition.how == "all":
        return NEVER if _contradicts(condition.children) else _joined("all", parts, neutral=ALWAYS, absorbing=NEVER)
    return _joined("any", parts, neutral=NEVER, absorbing=ALWAYS)


def conjuncts(key: Canonical) -> frozenset[Hashable]:
    """What must hold, part by part: a rule whose parts include all parts of an earlier rule is never reached."""
    if key == ALWAYS:
        return frozenset()
    if key[0] == "all" and isinstance(key[1], frozenset):
        return key[1]
    return frozenset((key,))


def _comparison(name: str, operator: str, value: Hashable) -> Canonical:
    if operator == "one_of" and isinstance(value, frozenset) and len(value) == 1:
        operator, value = "equals", next(iter(value))
    # The type is part of it: in Python True == 1.
    return "comparison", (name, operator, type(value).__name__, value)


def _negated(inner: Canonical) -> Canonical:
    if inner[0] == "constant":
        return NEVER if inner == ALWAYS else ALWAYS
    if inner[0] == "not" and isinstance(inner[1], tuple):
        return inner[1]
    return "not", inner


def _joined(how: str, parts: Iterable[Canonical], *, neutral: Canonical, absorbing: Canonical) -> Canonical:
    flat: set[Canonical] = set()
    for part in parts:
        if part[0] == how and isinstance(part[1], frozenset):
            flat |= part[1]
        elif part != neutral:
            flat.add(part)
    if absorbing in flat or any(part[0] == "not" and part[1] in flat for part in flat):
        return absorbing
    if not flat:
        return neutral
    return next(iter(flat)) if len(flat) == 1 else (how, frozenset(flat))


def _contradicts(children: tuple[Condition, ...]) -> bool:
    """Whether two values are asked at once of an attribute that has only one."""
    allowed: dict[str, frozenset[Hashable]] = {}
    for child in children:
        if not isinstance(child, Comparison) or child.attribute.many or child.operator not in ("equals", "one_of"):
            continue
        values: frozenset[Hashable] = child.value if isinstance(child.value, frozenset) else frozenset((child.value,))
        name = child.attribute.name
        allowed[name] = values & allowed.get(name, values)
        if not allowed[name]:
            return True
    return False
