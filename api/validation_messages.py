"""Turns pydantic's errors into sentences for people.

The place of an error is a path such as `items[3].groups` in a body, `body` for the complete body, or the name of a
parameter.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import UnionType
from typing import Annotated, Any, Final, Union, get_args, get_origin

from pydantic import BaseModel

from api.query_parameters import suggest_name

_MOMENT_REMEDY, _DAY_REMEDY = "Write the value as 2027-01-31T18:00:00+01:00.", "Write the value as 2027-01-31."
# Remedies for values that do not match the pattern of their field, by pattern.
SLUG_PATTERN: Final = r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?$"
SLUG_OR_NONE_PATTERN: Final = r"^([a-z0-9]([a-z0-9-]*[a-z0-9])?)?$"
EMAIL_PATTERN: Final = r"^[^\s@\x00]+@[^\s@\x00]+$"
# PostgreSQL text cannot contain NUL.
PLAIN_PATTERN: Final = r"^[^\x00]*$"
_SLUG_REMEDY: Final = "Use 1 to 63 characters of a-z, 0-9 and -, not starting or ending with -."
_PATTERN_REMEDIES: Final[Mapping[str, str]] = {
    SLUG_PATTERN: _SLUG_REMEDY,
    SLUG_OR_NONE_PATTERN: _SLUG_REMEDY,
    EMAIL_PATTERN: "Write an address such as ann@example.com.",
    PLAIN_PATTERN: "Remove the NUL characters.",
}
# Prefix of pydantic's error type, detail and remedy. The first match is used.
_MESSAGES: Final[tuple[tuple[str, str, str], ...]] = (
    ("missing", "The value is required.", "Send the value."),
    ("string_too_short", "The value must have at least {min_length} characters.", ""),
    ("string_too_long", "The value may have at most {max_length} characters.", ""),
    ("string_pattern_mismatch", "Invalid format.", "The value must match: {pattern}"),
    ("string", "The value must be text.", "Write the value in quotes."),
    ("int_parsing_size", "The number is too large.", ""),
    ("int", "The value must be a whole number.", ""),
    ("float", "The value must be a number.", ""),
    ("finite_number", "The value must be a number.", ""),
    ("bool", "The value must be true or false.", ""),
    ("greater_than_equal", "The value must be at least {ge}.", ""),
    ("greater_than", "The value must be more than {gt}.", ""),
    ("less_than_equal", "The value may be at most {le}.", ""),
    ("less_than", "The value must be less than {lt}.", ""),
    ("timezone", "The value must have an offset from UTC.", _MOMENT_REMEDY),
    ("datetime", "The value must be a date and time.", _MOMENT_REMEDY),
    ("date", "The value must be a date.", _DAY_REMEDY),
    ("literal_error", "The value must be {expected}.", ""),
    ("enum", "The value must be {expected}.", ""),
    ("uuid", "The value must be a UUID.", "Write the value as 0190b6c2-7c11-7d52-9a43-0c5d8f2e6b10."),
    ("list", "The value must be a list.", ""),
    ("too_long", "The value may have at most {max_length} entries.", ""),
    ("too_short", "The value must have at least {min_length} entries.", ""),
    ("dict", "The value must be an object.", ""),
    ("model", "The value must be an object.", ""),
    ("union_tag_not_found", "The value is required: it determines which fields are allowed.", "Send the value."),
    ("union_tag_invalid", "Unknown {discriminator}.", "Known values: {expected_tags}."),
    ("json", "The value must be JSON.", ""),
)
# Maximum length of the name of an unknown field in the place of an error.
_MAX_NAME_LENGTH = 100
# Place of errors about the whole body.
_BODY: Final = "body"
_OBJECT_REMEDY: Final = "Send a JSON object with Content-Type: application/json."
_BODY_MESSAGES: Final[Mapping[str, tuple[str, str]]] = {
    "missing": ("A body is required.", _OBJECT_REMEDY),
    "model_attributes_type": ("The value must be an object.", _OBJECT_REMEDY),
    "model_type": ("The value must be an object.", _OBJECT_REMEDY),
    "dict_type": ("The value must be an object.", _OBJECT_REMEDY),
}
_HEADER_NAMES = {"idempotency-key": "Idempotency-Key", "if-match": "If-Match"}


def describe_mistakes(
    errors: Iterable[Mapping[str, Any]], *, body: object, expects: object
) -> Iterator[dict[str, str]]:
    """Return one error for each place in the request. `expects` is the type that the body must have."""
    told = set()
    for error in errors:
        loc = _error_location(error)
        keys = tuple(_walk_body_keys(loc, body))
        place = _format_place(loc, keys)
        if place not in told:
            told.add(place)
            detail, remedy = _describe_error(error, _list_fields_at(expects, keys[:-1]))
            yield {name: text for name, text in (("place", place), ("detail", detail), ("remedy", remedy)) if text}


def _error_location(error: Mapping[str, Any]) -> tuple[str | int, ...]:
    """Location of the error; for a discriminator, the location of the discriminator's field."""
    loc = tuple(error["loc"])
    return (*loc, error["ctx"]["discriminator"].strip("'")) if error["type"].startswith("union_tag") else loc


def _describe_error(error: Mapping[str, Any], fields: Sequence[str]) -> tuple[str, str]:
    kind, given = error["type"], error.get("ctx") or {}
    if tuple(error["loc"]) == (_BODY,) and kind in _BODY_MESSAGES:
        return _BODY_MESSAGES[kind]
    if kind == "extra_forbidden":
        return "Unknown field.", suggest_name(str(error["loc"][-1]), tuple(sorted(set(fields))))
    if remedy := _PATTERN_REMEDIES.get(str(given.get("pattern"))):
        return "Invalid format.", remedy
    for beginning, detail, remedy in _MESSAGES:
        if kind.startswith(beginning):
            return detail.format_map(_ErrorContext(given)), remedy.format_map(_ErrorContext(given))
    detail = str(error["msg"]).removeprefix("Value error, ").removeprefix("Assertion failed, ")
    return detail if detail.endswith((".", "?")) else f"{detail}.", str(given.get("remedy", ""))


class _ErrorContext(dict[str, object]):
    def __missing__(self, name: str) -> str:
        return "valid"


def _walk_body_keys(loc: Sequence[str | int], body: object) -> Iterator[str | int]:
    """Yield the parts of the location that are keys of the body. Skips names of union members, which pydantic adds."""
    value: Any = body
    for number, part in enumerate(loc[1:], 2):
        if _has_part(value, part):
            value = value[part]
            yield part
        elif isinstance(value, dict) and number == len(loc):
            # The missing field.
            yield part


def _has_part(value: object, part: str | int) -> bool:
    if isinstance(value, list):
        return isinstance(part, int) and part < len(value)
    return isinstance(value, dict) and part in value


def _format_place(loc: Sequence[str | int], keys: Sequence[str | int]) -> str:
    if not loc or loc[0] != _BODY:
        name = str(loc[1]) if len(loc) > 1 else ""
        return _HEADER_NAMES.get(name, name) + "".join(f"[{part}]" for part in loc[2:] if isinstance(part, int))
    path = "".join(f"[{key}]" if isinstance(key, int) else f".{key[:_MAX_NAME_LENGTH]}" for key in keys)
    return path.removeprefix(".") or _BODY


def _list_fields_at(expects: object, keys: Sequence[str | int]) -> list[str]:
    """Return the names of the fields that are valid at the path `keys` of the body."""
    found = list(_walk_types(expects))
    for key in keys:
        found = [kind for outer in found for kind in _walk_types(_get_member_type(outer, key))]
    models = (kind for kind in found if isinstance(kind, type) and issubclass(kind, BaseModel))
    return [field.alias or name for model in models for name, field in model.model_fields.items()]


def _walk_types(expects: object) -> Iterator[object]:
    """Yield the types that a value of type `expects` can have."""
    origin = get_origin(expects)
    if origin is Annotated:
        yield from _walk_types(get_args(expects)[0])
    elif origin in (Union, UnionType):
        for way in get_args(expects):
            yield from _walk_types(way)
    elif expects is not None:
        yield expects


def _get_member_type(outer: object, key: str | int) -> object:
    if isinstance(outer, type) and issubclass(outer, BaseModel):
        field = outer.model_fields.get(str(key))
        return None if field is None else field.annotation
    arguments = get_args(outer)
    return arguments[-1] if arguments else None
