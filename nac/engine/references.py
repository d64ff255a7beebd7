"""The names that a policy refers to, so that the service can refuse a policy that names a group nobody made."""

from dataclasses import dataclass
from typing import Literal

from nac.engine.mistakes import at_index, at_key
from nac.vendors import POOL_KEYS

ReferenceKind = Literal["endpoint-group", "user-group", "site", "nas", "pool"]
_KINDS: dict[str, ReferenceKind] = {
    "endpoint.group": "endpoint-group",
    "user.group": "user-group",
    "site.name": "site",
    "nas.name": "nas",
}


@dataclass(frozen=True, slots=True)
class Reference:
    kind: ReferenceKind
    name: str
    place: str


def references(document: object) -> tuple[Reference, ...]:
    """Every name that a condition compares with as a whole (equals, one_of) or that is given out of (pools), in the
    order of the document.

    Works on any document, a wrong one too, so that its mistakes and its dangling names go into one answer.
    """
    found: list[Reference] = []
    stack: list[tuple[object, str]] = [(document, "")]
    while stack:
        value, place = stack.pop()
        if isinstance(value, dict):
            found.extend(_of_comparison(value, place))
            found.extend(_of_results(value, place))
            stack.extend((child, at_key(place, str(key))) for key, child in reversed(value.items()))
        elif isinstance(value, list):
            stack.extend((child, at_index(place, index)) for index, child in reversed(list(enumerate(value))))
    return tuple(found)


def _of_results(document: dict[str, object], place: str) -> list[Reference]:
    named = ((key, document.get(key)) for key in POOL_KEYS)
    return [Reference("pool", name, at_key(place, key)) for key, name in named if isinstance(name, str)]


def _of_comparison(document: dict[str, object], place: str) -> list[Reference]:
    attribute, value = document.get("attribute"), document.get("value")
    kind = _KINDS.get(attribute) if isinstance(attribute, str) else None
    if kind is None:
        return []
    where = at_key(place, "value")
    if document.get("operator") == "equals" and isinstance(value, str):
        return [Reference(kind, value, where)]
    if document.get("operator") == "one_of" and isinstance(value, list):
        return [Reference(kind, name, at_index(where, i)) for i, name in enumerate(value) if isinstance(name, str)]
    return []
