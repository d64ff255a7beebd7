"""Routers of all modules in this folder."""

from collections.abc import Iterator
from importlib import import_module
from pkgutil import iter_modules
from typing import Final

from starlette.routing import BaseRoute, Route

from api import v1
from api.bodies import allow_empty_body
from api.caller import limit_api_routes
from api.routes import NounRouter, prefix_routes


def _collect_routers() -> Iterator[NounRouter]:
    for name in sorted(module.name for module in iter_modules(v1.__path__)):
        if f"{v1.__name__}.{name}" != __name__:
            for value in vars(import_module(f"{v1.__name__}.{name}")).values():
                if isinstance(value, NounRouter):
                    yield value


def _has_parameters(route: BaseRoute) -> list[bool]:
    """Sort key by which a route with a literal segment comes before a route with a parameter in the same segment."""
    assert isinstance(route, Route)
    return ["{" in segment for segment in route.path.split("/")]


V1: Final = tuple(_collect_routers())
ROUTES: Final = tuple(limit_api_routes(allow_empty_body(sorted(prefix_routes("/v1", *V1), key=_has_parameters))))
