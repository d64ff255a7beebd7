"""Routes as they were made, in as many applications as there are.

FastAPI's include_router would make each of them anew for each application, with its dependencies and the forms of its
models, when the first request comes: as long again as all of it takes at the import.
"""

from collections.abc import Iterable
from copy import copy

from fastapi import APIRouter, FastAPI
from starlette.routing import BaseRoute, Route, compile_path


def add_routes(app: FastAPI, routes: Iterable[BaseRoute]) -> None:
    app.router.routes.extend(routes)


def prefix_routes(prefix: str, *routers: APIRouter) -> list[BaseRoute]:
    return [_prefix_route(prefix, route) for router in routers for route in router.routes]


def _prefix_route(prefix: str, route: BaseRoute) -> BaseRoute:
    assert isinstance(route, Route), "only what has a path can be placed below another"
    assert "{" not in prefix, "what the path tells was decided when the route was made"
    placed = copy(route)
    placed.path = prefix + route.path
    placed.path_regex, placed.path_format, placed.param_convertors = compile_path(placed.path)
    return placed
