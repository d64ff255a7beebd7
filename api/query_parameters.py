"""Rejects unknown query parameters, and repeated parameters that take a single value.

Without this check, a request with a misspelt filter would return all items. If a parameter was repeated, parts of the
code could use different values.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from itertools import islice
from typing import Any, Final, get_args, get_origin

from fastapi import Request
from fastapi.dependencies.models import Dependant
from fastapi.exceptions import RequestValidationError

from nac.kit.bulk_rows import MAX_REPORTED

UNKNOWN_PARAMETER: Final = "unknown_query_parameter"
REPEATED_PARAMETER: Final = "repeated_query_parameter"
# Providers send additional parameters, which must be ignored (RFC 6749 4.1.2).
_UNCHECKED_OPERATIONS: Final = frozenset({"finishSignOn"})
_known_parameters: dict[str, Mapping[str, bool]] = {}


def require_known_query(request: Request) -> None:
    """Check the query of every API route (api.access). Raises RequestValidationError."""
    if not request.query_params:
        return
    route = request.scope["route"]
    if route.operation_id in _UNCHECKED_OPERATIONS:
        return
    known = list_parameters(route)
    mistakes = list(islice(_find_mistakes(request, known), MAX_REPORTED + 1))
    if mistakes:
        raise RequestValidationError(mistakes)


def list_parameters(route: Any) -> Mapping[str, bool]:  # noqa: ANN401 -- a route of FastAPI
    """Return the query parameters by name. The value is True if the parameter accepts several values."""
    if route.operation_id not in _known_parameters:
        _known_parameters[route.operation_id] = dict(sorted(_walk_parameters(route.dependant)))
    return _known_parameters[route.operation_id]


def _walk_parameters(dependant: Dependant) -> Iterator[tuple[str, bool]]:
    for field in dependant.query_params:
        yield field.alias, _is_list(field.field_info.annotation)
    for part in dependant.dependencies:
        yield from _walk_parameters(part)


def _is_list(annotation: object) -> bool:
    """Whether the type is `list[...]` or a union with a list."""
    return get_origin(annotation) is list or any(map(_is_list, get_args(annotation)))


def _find_mistakes(request: Request, known: Mapping[str, bool]) -> Iterator[dict[str, Any]]:
    """Yield one error for each unknown or repeated name."""
    seen = Counter(name for name, _ in request.query_params.multi_items())
    for name, times in seen.items():
        if name not in known:
            yield _build_mistake(UNKNOWN_PARAMETER, name, "Unknown query parameter.", suggest_name(name, tuple(known)))
        elif times > 1 and not known[name]:
            yield _build_mistake(REPEATED_PARAMETER, name, "The parameter is repeated.", "Send the parameter once.")


def suggest_name(name: str, known: tuple[str, ...]) -> str:
    """Remedy for an unknown name, with the closest known name or all known names."""
    if not known:
        return "Omit the parameter."
    found = get_close_matches(name, known, n=1)
    return f"Did you mean {found[0]}?" if found else f"Known names: {', '.join(known)}."


def _build_mistake(kind: str, name: str, sentence: str, remedy: str) -> dict[str, Any]:
    return {"type": kind, "loc": ("query", name[:100]), "msg": sentence, "ctx": {"remedy": remedy}}
