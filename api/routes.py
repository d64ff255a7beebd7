"""Adds existing routes to applications.

FastAPI's include_router would create each route again for each application, with its dependencies and models. That
would double the start-up time.
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
    assert isinstance(route, Route), "the route has no path"
    assert "{" not in prefix, "path parameters are fixed when a route is created"
    placed = copy(route)
    placed.path = prefix + route.path
    placed.path_regex, placed.path_format, placed.param_convertors = compile_path(placed.path)
    return placed
