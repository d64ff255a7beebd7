"""Routes of an application, with the permissions that they require."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from fastapi import FastAPI
from fastapi.dependencies.models import Dependant
from fastapi.routing import iter_route_contexts

from api.access import AllowsAnyone, RequiresPermission, RequiresSelf
from nac.kit.permissions import PermissionLevel

RouteRequirement = RequiresPermission | RequiresSelf | AllowsAnyone


class DescribedRoute(NamedTuple):
    method: str
    path: str
    operation_id: str
    asks: RouteRequirement | None
    # Names in the code of the route's function, which show whether the response has an ETag.
    uses: frozenset[str]


def collect_routes(app: FastAPI) -> dict[tuple[str, str], DescribedRoute]:
    routes = {}
    for route in iter_route_contexts(app.routes):
        dependant: Dependant | None = getattr(route, "dependant", None)
        if dependant is None:
            continue
        for method in route.methods or ():
            entry = DescribedRoute(
                method.lower(),
                route.path_format or "",
                route.operation_id or "",
                next(find_requirements(dependant), None),
                frozenset(_walk_names(route.endpoint, set())),
            )
            routes[entry.path, entry.method] = entry
    return routes


def _walk_names(endpoint: Any, seen: set[str]) -> Iterator[str]:  # noqa: ANN401 -- any endpoint
    """Yield the names in the code of a function, and in helper functions of the same module."""
    for name in endpoint.__code__.co_names:
        yield name
        helper = endpoint.__globals__.get(name)
        of_module = getattr(helper, "__module__", "") == endpoint.__module__ and hasattr(helper, "__code__")
        if of_module and name not in seen:
            seen.add(name)
            yield from _walk_names(helper, seen)


def find_requirements(dependant: Dependant) -> Iterator[RouteRequirement]:
    if isinstance(dependant.call, RouteRequirement):
        yield dependant.call
    for part in dependant.dependencies:
        yield from find_requirements(part)


def describe_level(asks: RequiresPermission) -> str:
    return {
        PermissionLevel.TENANT: "the tenant",
        PermissionLevel.MSP: "the MSP",
        PermissionLevel.PLATFORM: "the platform",
    }[asks.level]
