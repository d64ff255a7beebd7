"""Operators: their attribute kinds, values and matchers.

Every operator is false for a missing attribute. With several values, one match is enough.
"""

from collections.abc import Callable
from typing import NamedTuple, TypeVar

from nac.engine import domains, matchers, networks, windows
from nac.engine.attributes import Attribute, Kind, normalise_text
from nac.engine.matchers import NUMBER_LIMIT, Match, Reading
from nac.engine.networks import Network
from nac.engine.patterns import compile_pattern
from nac.engine.windows import Window

_T = TypeVar("_T")

_WHOLE = ("equals", "one_of")
PARTIAL = ("starts_with", "ends_with", "contains")
NUMERIC = ("greater_than", "less_than", "at_least", "at_most", "between")
OPERATORS = (*_WHOLE, *PARTIAL, "in_domain", "in_network", "matches", "exists", *NUMERIC, "within")
# Operators that support "ignore_case".
FOLDABLE = (*_WHOLE, *PARTIAL, "matches")

_OF_KIND: dict[Kind, tuple[str, ...]] = {
    "text": (*_WHOLE, *PARTIAL, "in_domain", "matches", "exists"),
    "mac": (*_WHOLE, *PARTIAL, "exists"),
    "address": (*_WHOLE, *PARTIAL, "in_network", "exists"),
    "boolean": ("equals", "exists"),
    "number": (*_WHOLE, "exists", *NUMERIC),
    "open": (*_WHOLE, *PARTIAL, "in_domain", "in_network", "matches", "exists", *NUMERIC),
    # Never missing.
    "time": ("within",),
}
_WHAT: dict[Kind, str] = {
    "text": "text",
    "mac": "a MAC address",
    "address": "an IP address",
    "boolean": "true or false",
    "number": "a number",
    "open": "text, a number, or true or false",
    "time": "a moment",
}


class Numbers(NamedTuple):
    """A range, inclusive; None means unbounded."""

    least: int | None
    most: int | None

    def test(self) -> Callable[[int], bool]:
        least, most = self
        if least is None:
            bound = NUMBER_LIMIT if most is None else most
            return lambda number: number <= bound
        if most is None:
            return lambda number: number >= least
        return lambda number: least <= number <= most


# Texts, numbers, a range, networks, domains, a time window, a substring or pattern, a boolean, or nothing.
Wanted = frozenset[str] | frozenset[int] | frozenset[Network] | Numbers | Window | str | bool | None


class Compiled(NamedTuple):
    """The value in comparable form (equal if it means the same) and the matcher."""

    wanted: Wanted
    match: Match


def operators_of(attribute: Attribute) -> tuple[str, ...]:
    """Return the operators that apply to the attribute."""
    return _OF_KIND[attribute.kind]


def require_operator(attribute: Attribute, operator: str) -> None:
    """Raise ValueError with a sentence unless the operator applies."""
    applicable = _OF_KIND[attribute.kind]
    if operator not in applicable:
        raise ValueError(
            f"{operator} does not apply to {attribute.name} ({_WHAT[attribute.kind]}); use {', '.join(applicable)}"
        )


def takes_ignore_case(attribute: Attribute, operator: str) -> bool:
    return operator in FOLDABLE and attribute.kind in ("text", "mac", "address", "open")


def compile_value(attribute: Attribute, operator: str, value: object, *, ignore_case: bool) -> Compiled:
    """Compile a value. Raises ValueError with a sentence if it is wrong."""
    name, folded = attribute.name, attribute.folded or ignore_case
    if attribute.kind == "boolean":
        if not isinstance(value, bool):
            raise ValueError("must be true or false, without quotes")
        return Compiled(value, matchers.equals_boolean(name, value))
    if operator == "within":
        window = windows.parse_window(value)
        return Compiled(window, matchers.on_number(name, windows.is_in(window)))
    if operator in NUMERIC:
        return _in_range(name, _numbers(operator, value))
    if operator in _WHOLE:
        return _compile_whole(attribute, operator, value, folded=folded)
    reading = _reading(attribute, folded=folded)
    if operator == "in_network":
        found = frozenset(_members(value, lambda each: networks.parse_network(_text(each))))
        return Compiled(found, matchers.on_text(name, networks.is_in(found), _reading(attribute, folded=False)))
    if operator == "in_domain":
        names = frozenset(_members(value, lambda each: domains.parse_domain(_text(each))))
        return Compiled(names, matchers.on_text(name, domains.is_in(names), _reading(attribute, folded=False)))
    if operator == "matches":
        pattern = _text(value)
        found_in = compile_pattern(pattern, ignore_case=folded)
        return Compiled(pattern, matchers.on_text(name, found_in, _reading(attribute, folded=False)))
    part = _fold(normalise_text(attribute, _text(value), whole=False), folded=folded)
    return Compiled(part, matchers.on_text(name, _part_test(operator, part), reading))


def _compile_whole(attribute: Attribute, operator: str, value: object, *, folded: bool) -> Compiled:
    name = attribute.name
    members = [value]
    if operator == "one_of":
        if not isinstance(value, list) or not value:
            raise ValueError("must be a list with at least one member")
        members = value
    if attribute.kind == "number" or (attribute.kind == "open" and all(map(_is_number, members))):
        numbers = frozenset(_number(member) for member in members)
        if len(numbers) == 1:
            (only,) = numbers
            return _in_range(name, Numbers(only, only))
        return Compiled(numbers, matchers.on_number(name, numbers.__contains__))
    if attribute.kind == "open" and isinstance(value, bool):
        members = ["true" if value else "false"]
    elif attribute.kind == "open" and any(map(_is_number, members)):
        raise ValueError("must be texts or whole numbers, not both")
    values = frozenset(_fold(normalise_text(attribute, _text(member), whole=True), folded=folded) for member in members)
    reading = _reading(attribute, folded=folded)
    if len(values) == 1:
        return Compiled(values, matchers.equals(name, next(iter(values)), reading))
    return Compiled(values, matchers.one_of(name, values, reading))


def _in_range(name: str, numbers: Numbers) -> Compiled:
    return Compiled(numbers, matchers.on_number(name, numbers.test()))


def _numbers(operator: str, value: object) -> Numbers:
    if operator == "between":
        if not isinstance(value, list) or len(value) != 2:
            raise ValueError("must be a list of two whole numbers: [lowest, highest], both included")
        least, most = map(_number, value)
        if most < least:
            raise ValueError(f"{most} is lower than {least}; write the lower number first")
        return Numbers(least, most)
    bound = _number(value)
    match operator:
        case "greater_than":
            return Numbers(bound + 1, None)
        case "less_than":
            return Numbers(None, bound - 1)
        case "at_least":
            return Numbers(bound, None)
        case _:
            return Numbers(None, bound)


def _part_test(operator: str, part: str) -> Callable[[str], bool]:
    if operator == "starts_with":
        return lambda value: value.startswith(part)
    if operator == "ends_with":
        return lambda value: value.endswith(part)
    return lambda value: part in value


def _reading(attribute: Attribute, *, folded: bool) -> Reading:
    if attribute.kind == "open":
        return matchers.spelled_folded if folded else matchers.spelled
    return matchers.folded if folded else matchers.as_is


def _fold(text: str, *, folded: bool) -> str:
    return text.casefold() if folded else text


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _number(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or abs(value) >= NUMBER_LIMIT:
        raise ValueError("must be a whole number, without quotes")
    return value


def _members(value: object, read: Callable[[object], _T]) -> list[_T]:
    """Read one text or a list of texts."""
    if isinstance(value, list):
        if not value:
            raise ValueError("must be text, or a list with at least one text")
        return [read(member) for member in value]
    return [read(value)]


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"must be text in quotes, not {shown(value)}")
    if not value:
        raise ValueError("must not be empty; to test for presence use exists")
    return value


def shown(value: object) -> str:
    """Format a value for a message, truncated."""
    # JSON spelling.
    text = {"None": "null", "True": "true", "False": "false"}.get(repr(value)) or repr(value)
    return text if len(text) <= 80 else f"{text[:80]}..."
