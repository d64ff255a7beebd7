"""Routes of an application, with the permissions that they require."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from fastapi import FastAPI
from fastapi.dependencies.models import Dependant
from fastapi.routing import iter_route_contexts

from api.access import Anyone, Mine, Requires
from nac.accounts.permissions import Level

Asks = Requires | Mine | Anyone


class Told(NamedTuple):
    method: str
    path: str
    operation_id: str
    asks: Asks | None
    # Names in its code, which determine the responses with an ETag.
    uses: frozenset[str]


def routes_of(app: FastAPI) -> dict[tuple[str, str], Told]:
    """Return the routes by path and method."""
    routes = {}
    for route in iter_route_contexts(app.routes):
        dependant: Dependant | None = getattr(route, "dependant", None)
        if dependant is None:
            continue
        for method in route.methods or ():
            entry = Told(
                method.lower(),
                route.path_format or "",
                route.operation_id or "",
                next(asks_of(dependant), None),
                frozenset(_names_in(route.endpoint, set())),
            )
            routes[entry.path, entry.method] = entry
    return routes


def _names_in(endpoint: Any, seen: set[str]) -> Iterator[str]:  # noqa: ANN401 -- any endpoint
    """Yield the names in a function's code, and in helpers of its module."""
    for name in endpoint.__code__.co_names:
        yield name
        helper = endpoint.__globals__.get(name)
        of_module = getattr(helper, "__module__", "") == endpoint.__module__ and hasattr(helper, "__code__")
        if of_module and name not in seen:
            seen.add(name)
            yield from _names_in(helper, seen)


def asks_of(dependant: Dependant) -> Iterator[Asks]:
    if isinstance(dependant.call, Asks):
        yield dependant.call
    for part in dependant.dependencies:
        yield from asks_of(part)


def level_of(asks: Requires) -> str:
    return {Level.TENANT: "the tenant", Level.MSP: "the MSP", Level.PLATFORM: "the platform"}[asks.level]
