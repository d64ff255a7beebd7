"""Sizes of numbers. Without one, generators use the smallest type of their language."""

from typing import Any, Final

_FORMATS: Final = {"integer": "int64", "number": "double"}


def add_number_formats(part: Any) -> None:  # noqa: ANN401 -- a part of a JSON document
    """Set the format of each number in a description, recursively."""
    if isinstance(part, dict):
        kind = part.get("type")
        if isinstance(kind, str) and kind in _FORMATS:
            part.setdefault("format", _FORMATS[kind])
        for name, value in part.items():
            if name == "properties":
                # Field names, which can be `value` or `default`.
                add_number_formats(list(value.values()))
            elif name not in ("example", "examples", "default", "value"):
                add_number_formats(value)
    elif isinstance(part, list):
        for value in part:
            add_number_formats(value)
