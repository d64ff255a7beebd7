"""Conditions: all, any, not over comparisons of one attribute with a value.

Semantics:
* A comparison with a missing attribute is false; so `{"not": {...}}` of it is true. `exists` tells the two apart.
* An attribute with several values matches if any of them does. "None of them" is `not`.
* "Not equal" is `{"not": {"operator": "equals", ...}}`: no operator holds and fails at once.
* `{"all": []}` always matches; `{"any": []}` never does and is refused as unreachable.
* Text compares exactly, or case-folded where the attribute is case-insensitive by nature (see `attributes`).
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Literal

from nac.engine import matchers
from nac.engine.attributes import Attribute, find_attribute, normalise_text
from nac.engine.matchers import Match
from nac.engine.mistakes import Report, at_index, at_key

MAX_DEPTH = 10
MAX_CONDITIONS = 2000

Value = str | int | bool | frozenset[str] | None
_WHOLE = ("equals", "one_of")
_PARTIAL = ("starts_with", "ends_with", "contains")
_NUMERIC = ("greater_than", "less_than")
_OF_BOOLEANS = ("equals", "exists")
OPERATORS = (*_WHOLE, *_PARTIAL, "exists", *_NUMERIC)


@dataclass(frozen=True, slots=True)
class Comparison:
    place: str
    attribute: Attribute
    operator: str
    value: Value
    match: Match = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Group:
    """All or any of `children`; "not" has exactly one."""

    how: Literal["all", "any", "not"]
    children: tuple["Condition", ...]
    match: Match = field(compare=False, repr=False)


Condition = Comparison | Group


def names_read(condition: Condition) -> Iterator[str]:
    """Names of the attributes that it compares; one may come several times."""
    if isinstance(condition, Comparison):
        yield condition.attribute.name
        return
    for child in condition.children:
        yield from names_read(child)


class ConditionParser:
    """Parses the conditions of one document and counts them against its limit."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._count = 0
        self.attributes_read: list[tuple[str, Attribute]] = []

    def parse(self, document: object, place: str, depth: int = 1) -> Condition | None:
        """The condition, or None after reporting why there is none."""
        self._count += 1
        if self._count == MAX_CONDITIONS + 1:
            self._report.add(place, f"more than {MAX_CONDITIONS} conditions; use one_of, or groups")
        if self._count > MAX_CONDITIONS:
            return None
        if depth > MAX_DEPTH:
            self._report.add(place, f"nested deeper than {MAX_DEPTH} conditions; flatten it")
            return None
        if not isinstance(document, dict):
            self._report.add(place, 'must be an object: {"all": [...]}, {"any": [...]}, {"not": ...} or a comparison')
            return None
        kinds = [key for key in ("all", "any", "not", "attribute") if key in document]
        if len(kinds) != 1:
            self._report.add(place, 'must have exactly one of the keys "all", "any", "not", "attribute"')
            return None
        if kinds[0] == "attribute":
            return self._comparison(document, place)
        self._refuse_other_keys(document, (kinds[0],), place)
        if kinds[0] == "not":
            return self._negation(document["not"], at_key(place, "not"), depth)
        return self._junction(kinds[0], document[kinds[0]], at_key(place, kinds[0]), depth)

    def _junction(self, how: str, parts: object, place: str, depth: int) -> Condition | None:
        if not isinstance(parts, list):
            self._report.add(place, "must be a list of conditions")
            return None
        parsed = [self.parse(part, at_index(place, index), depth + 1) for index, part in enumerate(parts)]
        children = tuple(child for child in parsed if child is not None)
        if len(children) != len(parsed):
            return None
        matches = [child.match for child in children]
        if how == "all":
            return Group("all", children, matchers.every(matches))
        return Group("any", children, matchers.some(matches))

    def _negation(self, part: object, place: str, depth: int) -> Condition | None:
        child = self.parse(part, place, depth + 1)
        return None if child is None else Group("not", (child,), matchers.negate(child.match))

    def _comparison(self, document: dict[str, object], place: str) -> Comparison | None:
        self._refuse_other_keys(document, ("attribute", "operator", "value"), place)
        attribute = self._attribute(document["attribute"], at_key(place, "attribute"))
        operator = document.get("operator")
        if operator not in OPERATORS:
            self._report.add(at_key(place, "operator"), _unknown_operator(operator))
            return None
        if attribute is None:
            return None
        self.attributes_read.append((at_key(place, "attribute"), attribute))
        try:
            _require_operator(attribute, str(operator))
        except ValueError as error:
            self._report.add(at_key(place, "operator"), str(error))
            return None
        try:
            value, match = _compile(attribute, str(operator), document)
        except ValueError as error:
            self._report.add(at_key(place, "value"), str(error))
            return None
        return Comparison(place, attribute, str(operator), value, match)

    def _attribute(self, name: object, place: str) -> Attribute | None:
        attribute = find_attribute(name) if isinstance(name, str) else None
        if attribute is None:
            self._report.add(place, f"unknown attribute {_shown(name)}; `policy attributes` lists those there are")
        return attribute

    def _refuse_other_keys(self, document: dict[str, object], allowed: tuple[str, ...], place: str) -> None:
        for key in document:
            if key not in allowed:
                self._report.add(at_key(place, key), f"unknown key; a condition of this kind has: {', '.join(allowed)}")


def _unknown_operator(operator: object) -> str:
    if operator in ("not_equals", "not_one_of", "not_exists"):
        return f'there is no {operator}; write {{"not": {{...}}}} around the positive condition'
    return f"unknown operator {_shown(operator)}; there are: {', '.join(OPERATORS)}"


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:80]}..."


def operators_of(attribute: Attribute) -> tuple[str, ...]:
    """Those that apply to it."""
    if attribute.kind == "boolean":
        return _OF_BOOLEANS
    return OPERATORS if attribute.numeric else tuple(each for each in OPERATORS if each not in _NUMERIC)


def _require_operator(attribute: Attribute, operator: str) -> None:
    if operator in operators_of(attribute):
        return
    if attribute.kind == "boolean":
        raise ValueError(f"{attribute.name} is true or false: only {' and '.join(_OF_BOOLEANS)} apply")
    raise ValueError(f"{attribute.name} is no number: {operator} does not apply")


def _compile(attribute: Attribute, operator: str, document: dict[str, object]) -> tuple[Value, Match]:
    """The value in comparable form and the closure. Raises ValueError on a wrong value."""
    name, value = attribute.name, document.get("value")
    if operator == "exists":
        if "value" in document and value is not True:
            raise ValueError('exists takes no value; for "is missing" write {"not": {...}} around it')
        return None, matchers.exists(name)
    if "value" not in document:
        raise ValueError(f"{operator} needs a value")
    if attribute.kind == "boolean":
        if not isinstance(value, bool):
            raise ValueError("must be true or false, without quotes")
        return value, matchers.equals_boolean(name, value)
    if operator in _NUMERIC:
        return _compile_number(name, operator, value)
    if operator == "one_of":
        wanted = _members(attribute, value)
        return wanted, matchers.one_of(name, wanted, folded=attribute.folded)
    text = _text(attribute, value, whole=operator in _WHOLE)
    if operator == "equals":
        return text, matchers.equals(name, text, folded=attribute.folded)
    return text, matchers.on_text(name, _text_test(operator, text), folded=attribute.folded)


def _compile_number(name: str, operator: str, value: object) -> tuple[Value, Match]:
    if not isinstance(value, int) or isinstance(value, bool) or abs(value) >= 2**64:
        raise ValueError("must be a whole number, without quotes")
    bound = value
    if operator == "greater_than":
        return bound, matchers.on_number(name, lambda number: number > bound)
    return bound, matchers.on_number(name, lambda number: number < bound)


def _text_test(operator: str, part: str) -> Callable[[str], bool]:
    if operator == "starts_with":
        return lambda value: value.startswith(part)
    if operator == "ends_with":
        return lambda value: value.endswith(part)
    return lambda value: part in value


def _text(attribute: Attribute, value: object, *, whole: bool) -> str:
    if not isinstance(value, str):
        raise ValueError(f"must be text in quotes, not {_shown(value)}")
    if not value:
        raise ValueError("must not be empty; to ask whether the attribute is there, use exists")
    return normalise_text(attribute, value, whole=whole)


def _members(attribute: Attribute, value: object) -> frozenset[str]:
    if not isinstance(value, list) or not value:
        raise ValueError("must be a list with at least one text")
    return frozenset(_text(attribute, member, whole=True) for member in value)
