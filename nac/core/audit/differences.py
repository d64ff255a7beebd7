"""Differences between the values before and after a change."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

_MAX_DEPTH = 8


class AuditDifference(NamedTuple):
    # Path with dots, such as settings.port.
    name: str
    # Values; None if there is none.
    before: Any
    after: Any


def list_differences(before: Mapping[str, Any] | None, after: Mapping[str, Any] | None) -> list[AuditDifference]:
    """Differences between two values; None counts as empty."""
    return [each for each in _compare(before or {}, after or {}, "", _MAX_DEPTH) if each.before != each.after]


def _compare(
    before: Mapping[str, Any], after: Mapping[str, Any], within: str, deeper: int
) -> Iterator[AuditDifference]:
    for name in [*before, *(name for name in after if name not in before)]:
        old, new = before.get(name), after.get(name)
        told = f"{within}{name}"
        if (
            deeper
            and (isinstance(old, dict) or isinstance(new, dict))
            and all(_is_nestable(each) for each in (old, new))
        ):
            yield from _compare(old or {}, new or {}, f"{told}.", deeper - 1)
        else:
            yield AuditDifference(told, old, new)


def _is_nestable(value: object) -> bool:
    return value is None or isinstance(value, dict)
