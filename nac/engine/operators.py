"""Operators of comparisons. For each operator, the module defines the kinds of attributes, the allowed values and the
matcher.

A comparison with a missing attribute is false. If the request has several values, one matching value is enough.

DNS domains match by whole labels: "evilcorp.example" is not in "corp.example".
"""

import re
from collections.abc import Callable
from typing import NamedTuple, TypeVar

from nac.engine import matchers, networks, time_windows
from nac.engine.attributes import AttributeKind, PolicyAttribute, normalise_text
from nac.engine.matchers import NUMBER_LIMIT, Matcher, TextReader
from nac.engine.networks import IpPrefix
from nac.engine.patterns import compile_pattern
from nac.engine.time_windows import TimeWindow

_MAX_NAME = 253
# RFC 1035 2.3.4 limits the length of a label. Underscores occur in service names.
_LABEL = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)\Z")


def parse_domain(text: str) -> str:
    """Return the domain in lower case, with xn--... labels (RFC 3490), without a final dot.

    Raises ValueError with a message for the author of the policy.
    """
    if text.startswith((".", "*.")):
        raise ValueError(
            f"{text!r}: write only the domain, {text.lstrip('*.')!r}; a domain includes all names below it"
        )
    name = _to_ascii(text.removesuffix(".").casefold())
    if name is None or len(name) > _MAX_NAME or not all(map(_LABEL.match, name.split("."))):
        raise ValueError(f"{text!r} is not a DNS domain such as corp.example")
    return name


def build_domain_test(domains: frozenset[str]) -> Callable[[str], bool]:
    """Return a function that tests whether a name is in `domains`.

    For a mail address, UPN or NAI, the test uses the part after the last @.
    """
    suffixes = tuple("." + domain for domain in sorted(domains))

    def test(text: str) -> bool:
        name = text[text.rfind("@") + 1 :].casefold().removesuffix(".")
        if not name.isascii():
            name = _to_ascii(name) or ""
        return name in domains or name.endswith(suffixes)

    return test


def build_domain_cover_test(domains: frozenset[str]) -> Callable[[str], bool]:
    """Return a function that tests whether a domain is in `domains`, or is a subdomain of a domain in `domains`."""

    def test(domain: str) -> bool:
        labels = domain.split(".")
        return any(".".join(labels[start:]) in domains for start in range(len(labels)))

    return test


def _to_ascii(name: str) -> str | None:
    if name.isascii():
        return name
    # The codec takes quadratic time, so reject long names first.
    if len(name) > _MAX_NAME:
        return None
    try:
        return name.encode("idna").decode("ascii")
    except UnicodeError:
        return None


_T = TypeVar("_T")

_EXACT_OPERATORS = ("equals", "one_of")
PARTIAL_OPERATORS = ("starts_with", "ends_with", "contains")
NUMERIC_OPERATORS = ("greater_than", "less_than", "at_least", "at_most", "between")
OPERATORS = (
    *_EXACT_OPERATORS,
    *PARTIAL_OPERATORS,
    "in_domain",
    "in_network",
    "matches",
    "exists",
    *NUMERIC_OPERATORS,
    "within",
)
# Operators that support "ignore_case".
FOLDABLE_OPERATORS = (*_EXACT_OPERATORS, *PARTIAL_OPERATORS, "matches")

_OPERATORS_BY_KIND: dict[AttributeKind, tuple[str, ...]] = {
    "text": (*_EXACT_OPERATORS, *PARTIAL_OPERATORS, "in_domain", "matches", "exists"),
    "mac": (*_EXACT_OPERATORS, *PARTIAL_OPERATORS, "exists"),
    "address": (*_EXACT_OPERATORS, *PARTIAL_OPERATORS, "in_network", "exists"),
    "boolean": ("equals", "exists"),
    "number": (*_EXACT_OPERATORS, "exists", *NUMERIC_OPERATORS),
    "open": (*_EXACT_OPERATORS, *PARTIAL_OPERATORS, "in_domain", "in_network", "matches", "exists", *NUMERIC_OPERATORS),
    # Every request has a time, so `exists` does not apply.
    "time": ("within",),
}
_KIND_DESCRIPTIONS: dict[AttributeKind, str] = {
    "text": "text",
    "mac": "a MAC address",
    "address": "an IP address",
    "boolean": "true or false",
    "number": "a number",
    "open": "text, a number, or true or false",
    "time": "day and time",
}


class NumberRange(NamedTuple):
    """A range of numbers that includes both bounds; None means no bound."""

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


# The value with which a condition compares. The type depends on the operator; `exists` has no value (None).
ComparedValue = frozenset[str] | frozenset[int] | frozenset[IpPrefix] | NumberRange | TimeWindow | str | bool | None


class CompiledComparison(NamedTuple):
    """The matcher of a comparison, and the compared value in canonical form (equal for values with equal meaning)."""

    wanted: ComparedValue
    match: Matcher


def list_operators(attribute: PolicyAttribute) -> tuple[str, ...]:
    """Return the operators that apply to the attribute."""
    return _OPERATORS_BY_KIND[attribute.kind]


def require_operator(attribute: PolicyAttribute, operator: str) -> None:
    """Raise ValueError, with a message for the author of the policy, unless the operator applies to the attribute."""
    applicable = _OPERATORS_BY_KIND[attribute.kind]
    if operator not in applicable:
        raise ValueError(
            f"{operator} does not apply to {attribute.name} ({_KIND_DESCRIPTIONS[attribute.kind]}); "
            f"use {', '.join(applicable)}"
        )


def takes_ignore_case(attribute: PolicyAttribute, operator: str) -> bool:
    return operator in FOLDABLE_OPERATORS and attribute.kind in ("text", "mac", "address", "open")


def compile_value(attribute: PolicyAttribute, operator: str, value: object, *, ignore_case: bool) -> CompiledComparison:
    """Compile the value of a comparison. Raises ValueError, with a message for the author of the policy, if the value
    is wrong."""
    name, folded = attribute.name, attribute.folded or ignore_case
    if attribute.kind == "boolean":
        if not isinstance(value, bool):
            raise ValueError("must be true or false, without quotes")
        return CompiledComparison(value, matchers.equals_boolean(name, value))
    if operator == "within":
        window = time_windows.parse_window(value)
        return CompiledComparison(window, matchers.on_number(name, time_windows.build_window_test(window)))
    if operator in NUMERIC_OPERATORS:
        return _range_comparison(name, _parse_range(operator, value))
    if operator in _EXACT_OPERATORS:
        return _compile_exact(attribute, operator, value, folded=folded)
    reading = _choose_reader(attribute, folded=folded)
    if operator == "in_network":
        found = frozenset(_read_members(value, lambda each: networks.parse_network(_require_text(each))))
        return CompiledComparison(
            found, matchers.on_text(name, networks.build_network_test(found), _choose_reader(attribute, folded=False))
        )
    if operator == "in_domain":
        names = frozenset(_read_members(value, lambda each: parse_domain(_require_text(each))))
        return CompiledComparison(
            names, matchers.on_text(name, build_domain_test(names), _choose_reader(attribute, folded=False))
        )
    if operator == "matches":
        pattern = _require_text(value)
        found_in = compile_pattern(pattern, ignore_case=folded)
        return CompiledComparison(pattern, matchers.on_text(name, found_in, _choose_reader(attribute, folded=False)))
    part = _fold(normalise_text(attribute, _require_text(value), whole=False), folded=folded)
    return CompiledComparison(part, matchers.on_text(name, _part_test(operator, part), reading))


def _compile_exact(attribute: PolicyAttribute, operator: str, value: object, *, folded: bool) -> CompiledComparison:
    name = attribute.name
    members = [value]
    if operator == "one_of":
        if not isinstance(value, list) or not value:
            raise ValueError("must be a list with at least one member")
        members = value
    if attribute.kind == "number" or (attribute.kind == "open" and all(map(_is_number, members))):
        numbers = frozenset(_require_number(member) for member in members)
        if len(numbers) == 1:
            (only,) = numbers
            return _range_comparison(name, NumberRange(only, only))
        return CompiledComparison(numbers, matchers.on_number(name, numbers.__contains__))
    if attribute.kind == "open" and isinstance(value, bool):
        members = ["true" if value else "false"]
    elif attribute.kind == "open" and any(map(_is_number, members)):
        raise ValueError("must be either texts or whole numbers, not a mixture")
    values = frozenset(
        _fold(normalise_text(attribute, _require_text(member), whole=True), folded=folded) for member in members
    )
    reading = _choose_reader(attribute, folded=folded)
    if len(values) == 1:
        return CompiledComparison(values, matchers.equals(name, next(iter(values)), reading))
    return CompiledComparison(values, matchers.one_of(name, values, reading))


def _range_comparison(name: str, numbers: NumberRange) -> CompiledComparison:
    return CompiledComparison(numbers, matchers.on_number(name, numbers.test()))


def _parse_range(operator: str, value: object) -> NumberRange:
    if operator == "between":
        if not isinstance(value, list) or len(value) != 2:
            raise ValueError("must be a list of two whole numbers: [lowest, highest]; the range includes both numbers")
        least, most = map(_require_number, value)
        if most < least:
            raise ValueError(f"{most} is lower than {least}; write the lower number first")
        return NumberRange(least, most)
    bound = _require_number(value)
    match operator:
        case "greater_than":
            return NumberRange(bound + 1, None)
        case "less_than":
            return NumberRange(None, bound - 1)
        case "at_least":
            return NumberRange(bound, None)
        case _:
            return NumberRange(None, bound)


def _part_test(operator: str, part: str) -> Callable[[str], bool]:
    if operator == "starts_with":
        return lambda value: value.startswith(part)
    if operator == "ends_with":
        return lambda value: value.endswith(part)
    return lambda value: part in value


def _choose_reader(attribute: PolicyAttribute, *, folded: bool) -> TextReader:
    if attribute.kind == "open":
        return matchers.read_spelled_folded if folded else matchers.read_spelled
    return matchers.read_folded if folded else matchers.read_text


def _fold(text: str, *, folded: bool) -> str:
    return text.casefold() if folded else text


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _require_number(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or abs(value) >= NUMBER_LIMIT:
        raise ValueError("must be a whole number, without quotes")
    return value


def _read_members(value: object, read: Callable[[object], _T]) -> list[_T]:
    """Return the parsed members of a list. A single text counts as a list with one member."""
    if isinstance(value, list):
        if not value:
            raise ValueError("must be text, or a list with at least one text")
        return [read(member) for member in value]
    return [read(value)]


def _require_text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"must be text in quotes, not {format_value(value)}")
    if not value:
        raise ValueError("must not be empty; to test for presence use exists")
    return value


def format_value(value: object) -> str:
    """Format a value for a message, truncated."""
    # Write constants as in JSON.
    text = {"None": "null", "True": "true", "False": "false"}.get(repr(value)) or repr(value)
    return text if len(text) <= 80 else f"{text[:80]}..."
