"""What a change of the API's description means for programs that use it: breaking or not, and where."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

_DEEPEST = 12
_NOT_OPERATIONS = {"parameters", "summary", "description", "servers"}
# Of a schema: a smaller bound of the kind refuses what was taken.
_BOUNDS = {"maxLength": -1, "maximum": -1, "maxItems": -1, "minLength": 1, "minimum": 1, "minItems": 1}


_UUID_CHARACTERS = 36


class Change(NamedTuple):
    breaking: bool
    place: str
    what: str

    def __str__(self) -> str:
        return f"{'BREAKING' if self.breaking else 'addition'}  {self.place}: {self.what}"


def changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[Change]:
    """Of two OpenAPI documents; none where they say the same but for words."""
    return list(_Comparison(old, new).of_paths())


class _Comparison:
    def __init__(self, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
        self._old = old
        self._new = new

    def of_paths(self) -> Iterator[Change]:
        before, after = _operations(self._old), _operations(self._new)
        for place in sorted(before.keys() | after.keys()):
            if place not in after:
                yield Change(True, place, "is gone")
            elif place not in before:
                yield Change(False, place, "is new")
            else:
                yield from self._operation(place, before[place], after[place])

    def _operation(self, place: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[Change]:
        if old.get("operationId") != new.get("operationId"):
            yield Change(True, place, f"operationId {old.get('operationId')} is {new.get('operationId')} now")
        if not old.get("deprecated") and new.get("deprecated"):
            yield Change(False, place, "is deprecated")
        yield from self._parameters(place, old, new)
        yield from self._body(f"{place} body", old.get("requestBody"), new.get("requestBody"))
        before, after = old.get("responses", {}), new.get("responses", {})
        for status in sorted(before.keys() | after.keys()):
            here = f"{place} {status}"
            if status not in after:
                yield Change(status < "3", here, "is gone")
            elif status not in before:
                yield Change(False, here, "is new")
            else:
                yield from self._contents(here, before[status], after[status], given=False)

    def _parameters(self, place: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[Change]:
        before, after = ({(p["in"], p["name"]): p for p in each.get("parameters", ())} for each in (old, new))
        for key in sorted(before.keys() | after.keys()):
            here = f"{place} {key[0]} {key[1]}"
            if key not in after:
                yield Change(True, here, "is gone")
            elif key not in before:
                required = bool(after[key].get("required"))
                yield Change(required, here, "is new and required" if required else "is new")
            else:
                if after[key].get("required") and not before[key].get("required"):
                    yield Change(True, here, "is required now")
                yield from self._schema(here, before[key].get("schema", {}), after[key].get("schema", {}), given=True)

    def _body(self, place: str, old: Mapping[str, Any] | None, new: Mapping[str, Any] | None) -> Iterator[Change]:
        if old is None or new is None:
            if old != new:
                yield Change(old is not None or bool(new and new.get("required")), place, "is gone or new")
            return
        yield from self._contents(place, old, new, given=True)

    def _contents(self, place: str, old: Mapping[str, Any], new: Mapping[str, Any], *, given: bool) -> Iterator[Change]:
        old, new = _resolved(self._old, old), _resolved(self._new, new)
        before, after = old.get("content", {}), new.get("content", {})
        for kind in sorted(before.keys() | after.keys()):
            if kind not in after:
                yield Change(True, f"{place} {kind}", "is gone")
            elif kind in before:
                schemas = (each[kind].get("schema", {}) for each in (before, after))
                yield from self._schema(f"{place} {kind}", *schemas, given=given)

    def _schema(
        self, place: str, old: Mapping[str, Any], new: Mapping[str, Any], *, given: bool, depth: int = 0
    ) -> Iterator[Change]:
        """`given` to the API: then what was taken must be; else what was told must be."""
        old, new = _resolved(self._old, old), _resolved(self._new, new)
        if depth > _DEEPEST or old == new:
            return
        if old.get("type") != new.get("type"):
            yield Change(True, place, f"type {old.get('type')} is {new.get('type')} now")
        yield from _values(place, old, new, given=given)
        before, after = old.get("properties", {}), new.get("properties", {})
        required = set(new.get("required", ()))
        for name in sorted(before.keys() | after.keys()):
            here = f"{place} {name}"
            if name not in after:
                yield Change(True, here, "is gone")
            elif name not in before:
                breaks = given and name in required
                yield Change(breaks, here, "is new and required" if breaks else "is new")
            else:
                yield from self._schema(here, before[name], after[name], given=given, depth=depth + 1)
        newly = required & before.keys() - set(old.get("required", ()))
        yield from (Change(True, f"{place} {name}", "is required now") for name in sorted(newly) if given)
        for key in ("items", "additionalProperties"):
            one, other = old.get(key), new.get(key)
            if isinstance(one, dict) and isinstance(other, dict):
                yield from self._schema(f"{place} {key}", one, other, given=given, depth=depth + 1)
        yield from self._choices(place, old, new, given=given, depth=depth)

    def _choices(
        self, place: str, old: Mapping[str, Any], new: Mapping[str, Any], *, given: bool, depth: int
    ) -> Iterator[Change]:
        before, after = old.get("anyOf", []), new.get("anyOf", [])
        if len(before) != len(after):
            fewer = len(after) < len(before)
            yield Change(fewer if given else not fewer, place, f"{len(before)} choices are {len(after)} now")
            return
        for number, pair in enumerate(zip(before, after, strict=True)):
            yield from self._schema(f"{place} choice {number}", *pair, given=given, depth=depth + 1)


def _values(place: str, old: Mapping[str, Any], new: Mapping[str, Any], *, given: bool) -> Iterator[Change]:
    before, after = set(map(str, old.get("enum", ()))), set(map(str, new.get("enum", ())))
    gone, come = before - after, after - before
    if before and after and gone:
        yield Change(given, place, f"no longer {', '.join(sorted(gone))}")
    if before and after and come:
        # A program may have no case for what it was never told of: told, and not taken for breaking.
        yield Change(False, place, f"also {', '.join(sorted(come))}")
    if not given:
        return
    if not before and after:
        yield Change(True, place, f"only {', '.join(sorted(after))} now")
    bounds = {"maxLength": _UUID_CHARACTERS, **old} if old.get("format") == "uuid" else old
    for name, direction in _BOUNDS.items():
        if name in new and (name not in bounds or (new[name] - bounds[name]) * direction > 0):
            yield Change(True, place, f"{name} {old.get(name)} is {new[name]} now")
    if new.get("pattern") != old.get("pattern") and "pattern" in new:
        yield Change(True, place, "another pattern")


def _operations(document: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    return {
        f"{method.upper()} {path}": operation
        for path, operations in document["paths"].items()
        for method, operation in operations.items()
        if method not in _NOT_OPERATIONS
    }


def _resolved(document: Mapping[str, Any], schema: Mapping[str, Any]) -> Mapping[str, Any]:
    reference = schema.get("$ref")
    if reference is None:
        return schema
    _, _, kind, name = reference.split("/")
    found: Mapping[str, Any] = document["components"][kind][name]
    return found
