"""Query parameters that a route has not are refused, not passed over: `?sort=x` must not answer with everything."""

from collections.abc import Iterator
from difflib import get_close_matches
from itertools import islice
from typing import Any, Final

from fastapi import Request
from fastapi.dependencies.models import Dependant
from fastapi.exceptions import RequestValidationError

from nac.rows import MOST_TOLD

UNKNOWN: Final = "unknown_query_parameter"
# Providers send what they like there, and RFC 6749 4.1.2 has it ignored.
_TAKES_ANY: Final = frozenset({"finishSignOn"})
_known: dict[str, tuple[str, ...]] = {}


def require_known_query(request: Request) -> None:
    """Of every route of the API (api.access). Raises RequestValidationError."""
    given = request.query_params
    if not given:
        return
    route = request.scope["route"]
    if route.operation_id in _TAKES_ANY:
        return
    known = names_of(route)
    unknown = (name for name in given if name not in known)
    mistakes = [_mistake(name, known) for name in islice(unknown, MOST_TOLD + 1)]
    if mistakes:
        raise RequestValidationError(mistakes)


def names_of(route: Any) -> tuple[str, ...]:  # noqa: ANN401 -- a route of FastAPI
    if route.operation_id not in _known:
        _known[route.operation_id] = tuple(sorted(set(_names(route.dependant))))
    return _known[route.operation_id]


def _names(dependant: Dependant) -> Iterator[str]:
    yield from (field.alias for field in dependant.query_params)
    for part in dependant.dependencies:
        yield from _names(part)


def near(name: str, known: tuple[str, ...]) -> str:
    """What to write in its place."""
    if not known:
        return "Leave it out."
    found = get_close_matches(name, known, n=1)
    return f"Did you mean {found[0]}?" if found else f"There are: {', '.join(known)}."


def _mistake(name: str, known: tuple[str, ...]) -> dict[str, Any]:
    return {
        "type": UNKNOWN,
        "loc": ("query", name[:100]),
        "msg": "There is no such query parameter.",
        "ctx": {"remedy": near(name, known)},
    }
