"""Words of the API's paths that stand where a name could: what is called so is not to be had by its name."""

from collections.abc import Mapping
from typing import Final, Literal

from nac.errors import InvalidInput

RoutedNoun = Literal["nas", "pool", "user"]
# By what the parameter is called that has the place; tests/api/test_route_words.py compares it with the routes.
RESERVED_NAMES: Final[Mapping[RoutedNoun, frozenset[str]]] = {
    "nas": frozenset({"bulk", "vendors"}),
    "pool": frozenset({"leases", "release"}),
    "user": frozenset({"bulk"}),
}


def require_not_reserved(noun: RoutedNoun, name: str, *, place: str = "name") -> str:
    """Of a name that is given; what has one from before keeps it. Raises InvalidInput."""
    if name.strip() in RESERVED_NAMES[noun]:
        raise InvalidInput(
            f"{name.strip()!r} is another thing in the paths of the API: nothing that is called so could be had by it.",
            place=place,
            remedy="Choose another name.",
        )
    return name
