"""Routers of nouns (kinds of API resources), and functions that add existing routes to applications.

FastAPI's include_router would create each route, with dependencies and models, again for each application. These copies
would double the start-up time.
"""

from collections.abc import Iterable, Sequence
from copy import copy

from fastapi import APIRouter, FastAPI
from fastapi.params import Depends
from starlette.routing import BaseRoute, Route, compile_path


class NounRouter(APIRouter):
    """Routes of a kind of API resource (noun) under /v1.

    All operations of a noun have the same tag in /openapi.json.
    """

    def __init__(
        self, *, tag: str, description: str, prefix: str = "", dependencies: Sequence[Depends] | None = None
    ) -> None:
        super().__init__(prefix=prefix, tags=[tag], dependencies=dependencies)
        self.tag = {"name": tag, "description": description}


def add_routes(app: FastAPI, routes: Iterable[BaseRoute]) -> None:
    app.router.routes.extend(routes)


def prefix_routes(prefix: str, *routers: APIRouter) -> list[BaseRoute]:
    return [_prefix_route(prefix, route) for router in routers for route in router.routes]


def _prefix_route(prefix: str, route: BaseRoute) -> BaseRoute:
    assert isinstance(route, Route), "the route has no path"
    assert "{" not in prefix, "path parameters are fixed when a route is created"
    placed = copy(route)
    placed.path = prefix + route.path
    placed.path_regex, placed.path_format, placed.param_convertors = compile_path(placed.path)
    return placed
