"""What a change changed, name by name."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

_DEEPEST = 8


class Difference(NamedTuple):
    # Names within names with a dot: settings.port.
    name: str
    # None where there was, or is, nothing.
    before: Any
    after: Any


def differences(before: Mapping[str, Any] | None, after: Mapping[str, Any] | None) -> list[Difference]:
    """Of an entry that tells the one alone: of all that was given or that went."""
    return [each for each in _compare(before or {}, after or {}, "", _DEEPEST) if each.before != each.after]


def _compare(before: Mapping[str, Any], after: Mapping[str, Any], within: str, deeper: int) -> Iterator[Difference]:
    for name in [*before, *(name for name in after if name not in before)]:
        old, new = before.get(name), after.get(name)
        told = f"{within}{name}"
        if deeper and (isinstance(old, dict) or isinstance(new, dict)) and all(_nests(each) for each in (old, new)):
            yield from _compare(old or {}, new or {}, f"{told}.", deeper - 1)
        else:
            yield Difference(told, old, new)


def _nests(value: object) -> bool:
    return value is None or isinstance(value, dict)
