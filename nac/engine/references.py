"""Names that a policy refers to, so that the service can reject unknown groups and pools."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from nac.engine.attributes import ATTRIBUTE_CATALOGUE
from nac.engine.mistakes import at_index, at_key
from nac.engine.operators import compile_value, list_operators
from nac.engine.vendors import POOL_KEYS

ReferenceKind = Literal["endpoint-group", "user-group", "site", "nas", "identity-source", "pool"]
_KINDS: dict[str, ReferenceKind] = {
    "endpoint.group": "endpoint-group",
    "user.group": "user-group",
    "site.name": "site",
    "nas.name": "nas",
    "user.source": "identity-source",
}


@dataclass(frozen=True, slots=True)
class PolicyReference:
    kind: ReferenceKind
    name: str
    place: str
    # Whether the name is case-insensitive.
    any_case: bool = False


def references(document: object) -> tuple[PolicyReference, ...]:
    """Return the names in comparisons of complete values (equals, one_of) and the names of pools, in document order.

    The function also reads invalid documents, so that all mistakes are reported together.
    """
    found: list[PolicyReference] = []
    for value, place in _iter_objects(document):
        found.extend(_comparison_references(value, place))
        found.extend(_pool_references(value, place))
    return tuple(found)


def distinguishes_names(document: object, kind: ReferenceKind, name: str, other: str) -> bool:
    """Whether a comparison in the document matches exactly one of the names `name` and `other`.

    Also considers comparisons of parts of names, patterns, and comparisons that ignore case.
    """
    attribute = next(attribute for attribute, of in _KINDS.items() if of == kind)
    return any(
        _comparison_holds(value, attribute, name) != _comparison_holds(value, attribute, other)
        for value, _ in _iter_objects(document)
        if value.get("attribute") == attribute
    )


def _comparison_holds(comparison: dict[str, object], attribute: str, name: str) -> bool:
    """Whether the comparison matches; False if the comparison is invalid."""
    operator, folded = comparison.get("operator"), comparison.get("ignore_case") is True
    if (
        not isinstance(operator, str)
        or operator not in list_operators(ATTRIBUTE_CATALOGUE[attribute])
        or operator == "exists"
    ):
        return False
    try:
        compiled = compile_value(ATTRIBUTE_CATALOGUE[attribute], operator, comparison.get("value"), ignore_case=folded)
    except ValueError:
        return False
    return compiled.match({attribute: (name,)})


def _iter_objects(document: object) -> Iterator[tuple[dict[str, object], str]]:
    """Yield each object with its path in the document, in document order."""
    stack: list[tuple[object, str]] = [(document, "")]
    while stack:
        value, place = stack.pop()
        if isinstance(value, dict):
            yield value, place
            stack.extend((child, at_key(place, str(key))) for key, child in reversed(value.items()))
        elif isinstance(value, list):
            stack.extend((child, at_index(place, index)) for index, child in reversed(list(enumerate(value))))


def _pool_references(document: dict[str, object], place: str) -> list[PolicyReference]:
    named = ((key, document.get(key)) for key in POOL_KEYS)
    return [PolicyReference("pool", name, at_key(place, key)) for key, name in named if isinstance(name, str)]


def _comparison_references(document: dict[str, object], place: str) -> list[PolicyReference]:
    attribute, value = document.get("attribute"), document.get("value")
    kind = _KINDS.get(attribute) if isinstance(attribute, str) else None
    if kind is None:
        return []
    where, any_case = at_key(place, "value"), document.get("ignore_case") is True
    if document.get("operator") == "equals" and isinstance(value, str):
        return [PolicyReference(kind, value, where, any_case)]
    if document.get("operator") == "one_of" and isinstance(value, list):
        named = [(name, at_index(where, i)) for i, name in enumerate(value) if isinstance(name, str)]
        return [PolicyReference(kind, name, each, any_case) for name, each in named]
    return []
