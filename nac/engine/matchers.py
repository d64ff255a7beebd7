"""Builds one closure per comparison: `match(attributes) -> bool`. Every authentication runs these matchers.

A closure costs about 0.1 us; a tree walk costs 0.5 us. Matchers never raise: wrong types and missing attributes do
not match.
"""

# ruff: noqa: SIM110 - any() and all() create a generator per call, which costs more than the comparison.

from collections.abc import Callable, Mapping, Sequence

Scalar = str | int | bool
Attributes = Mapping[str, tuple[Scalar, ...]]
Matcher = Callable[[Attributes], bool]
# Converts a value of a request to text; returns None if it cannot be compared.
TextReader = Callable[[Scalar], str | None]

MISSING: tuple[Scalar, ...] = ()
# Range of a 64-bit counter; larger values do not count as numbers.
NUMBER_LIMIT = 2**64
_MAX_DIGITS = len(str(NUMBER_LIMIT)) + 1


def match_always(attributes: Attributes) -> bool:
    return True


def match_never(attributes: Attributes) -> bool:
    return False


def exists(name: str) -> Matcher:
    def match(attributes: Attributes) -> bool:
        return bool(attributes.get(name, MISSING))

    return match


def equals_boolean(name: str, wanted: bool) -> Matcher:
    def match(attributes: Attributes) -> bool:
        # Compare by identity, because True == 1 in Python.
        return any(value is wanted for value in attributes.get(name, MISSING))

    return match


def read_text(value: Scalar) -> str | None:
    return value if type(value) is str else None


def read_folded(value: Scalar) -> str | None:
    return value.casefold() if type(value) is str else None


def read_spelled(value: Scalar) -> str | None:
    """Return the value of an attribute of kind "open" as text. Numbers and booleans become JSON text."""
    if type(value) is str:
        return value
    if type(value) is bool:
        return "true" if value else "false"
    return str(value) if type(value) is int and -NUMBER_LIMIT < value < NUMBER_LIMIT else None


def read_spelled_folded(value: Scalar) -> str | None:
    text = read_spelled(value)
    return None if text is None else text.casefold()


def is_spelled_scalar(text: str) -> bool:
    """Whether `text` can be the text of a number or boolean."""
    return text in ("true", "false") or parse_number(text) is not None


def equals(name: str, wanted: str, reading: TextReader) -> Matcher:
    def match(attributes: Attributes) -> bool:
        return wanted in attributes.get(name, MISSING)

    def match_read(attributes: Attributes) -> bool:
        for value in attributes.get(name, MISSING):
            if value == wanted or reading(value) == wanted:
                return True
        return False

    return match if reading is read_text else match_read


def one_of(name: str, wanted: frozenset[str], reading: TextReader) -> Matcher:
    def match(attributes: Attributes) -> bool:
        for value in attributes.get(name, MISSING):
            if type(value) is str and value in wanted:
                return True
        return False

    def match_read(attributes: Attributes) -> bool:
        for value in attributes.get(name, MISSING):
            # `reading` returns None for a value that cannot be compared, and None is never in the set.
            if reading(value) in wanted:
                return True
        return False

    return match if reading is read_text else match_read


def on_text(name: str, test: Callable[[str], bool], reading: TextReader) -> Matcher:
    """Match if the text of any value passes `test`."""

    def match(attributes: Attributes) -> bool:
        for value in attributes.get(name, MISSING):
            if type(value) is str and test(value):
                return True
        return False

    def match_read(attributes: Attributes) -> bool:
        for value in attributes.get(name, MISSING):
            text = reading(value)
            if text is not None and test(text):
                return True
        return False

    return match if reading is read_text else match_read


def on_number(name: str, test: Callable[[int], bool]) -> Matcher:
    """Match if any value is a whole number, or text that contains only a whole number, and the number passes `test`."""

    def match(attributes: Attributes) -> bool:
        for value in attributes.get(name, MISSING):
            number = parse_number(value)
            if number is not None and test(number):
                return True
        return False

    return match


def parse_number(value: Scalar) -> int | None:
    if type(value) is int:
        number = value
    elif type(value) is str and len(value) <= _MAX_DIGITS and value.isascii() and value.removeprefix("-").isdigit():
        # The length is limited, because int() of long text is slow.
        number = int(value)
    else:
        return None
    return number if -NUMBER_LIMIT < number < NUMBER_LIMIT else None


def negate(inner: Matcher) -> Matcher:
    def match(attributes: Attributes) -> bool:
        return not inner(attributes)

    return match


def all_of(parts: Sequence[Matcher]) -> Matcher:
    match parts:
        case []:
            return match_always
        case [only]:
            return only
        case [first, second]:
            return lambda attributes: first(attributes) and second(attributes)
        case [first, second, third]:
            return lambda attributes: first(attributes) and second(attributes) and third(attributes)
    children = tuple(parts)

    def match_all(attributes: Attributes) -> bool:
        for child in children:
            if not child(attributes):
                return False
        return True

    return match_all


def any_of(parts: Sequence[Matcher]) -> Matcher:
    match parts:
        case []:
            return match_never
        case [only]:
            return only
        case [first, second]:
            return lambda attributes: first(attributes) or second(attributes)
    children = tuple(parts)

    def match_any(attributes: Attributes) -> bool:
        for child in children:
            if child(attributes):
                return True
        return False

    return match_any
