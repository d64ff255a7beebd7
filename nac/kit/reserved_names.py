"""Reserved words in API paths: an object with such a name could not be addressed by it."""

from collections.abc import Mapping
from typing import Final, Literal

from nac.kit.errors import InvalidInput

RoutedNoun = Literal["nas", "pool", "user"]
# By path parameter; tests/api/test_route_words.py compares them with the routes.
RESERVED_NAMES: Final[Mapping[RoutedNoun, frozenset[str]]] = {
    "nas": frozenset({"bulk", "vendors"}),
    "pool": frozenset({"leases", "release"}),
    "user": frozenset({"bulk"}),
}


def require_not_reserved(noun: RoutedNoun, name: str, *, place: str = "name") -> str:
    """Check a new name; existing objects keep theirs. Raises InvalidInput."""
    if name.strip() in RESERVED_NAMES[noun]:
        raise InvalidInput(
            f"{name.strip()!r} is reserved in API paths and cannot be used as a name.",
            place=place,
            remedy="Choose another name.",
        )
    return name
