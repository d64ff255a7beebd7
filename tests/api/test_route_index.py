"""The route index finds the same routes as a linear search."""

from collections.abc import Sequence
from typing import Any

import pytest
from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Match, Mount, Route

from api.errors import install_error_handlers
from api.route_index import RouteIndex
from api.v1.routers import ROUTES
from tests.api.app_server import serve_app


async def _answer(request: Request) -> Response:
    raise AssertionError(request.url.path)


def _first(routes: Sequence[BaseRoute], path: str, method: str) -> tuple[BaseRoute, Any] | None:
    scope = {"type": "http", "path": path, "method": method, "root_path": ""}
    for route in routes:
        match, child = route.matches(scope)
        if match is Match.FULL:
            return child.get("route", route), child["path_params"]
    return None


def test_every_api_route_is_found_at_its_path() -> None:
    index = RouteIndex(ROUTES)
    missed = []
    for route in ROUTES:
        assert isinstance(route, Route)
        path = route.path.format_map(dict.fromkeys(route.param_convertors, "x"))
        for method in route.methods or ():
            found = _first([index], path, method)
            assert found == _first(ROUTES, path, method)
            missed += [path] * (found is None)
    assert missed == []


@pytest.mark.parametrize(
    ("path", "method"),
    [
        ("/a", "GET"),
        ("/a/", "GET"),
        ("/a/b", "GET"),
        ("/a/b", "POST"),
        ("/a/c", "GET"),
        ("/a/b/c", "GET"),
        ("/a/x/c", "GET"),
        ("/a/b/", "GET"),
        ("/files/a/b.txt", "GET"),
        ("/v1:check", "GET"),
        ("/below/a", "GET"),
        ("", "GET"),
        ("/", "GET"),
        ("//", "GET"),
        ("/none", "GET"),
        ("/" + "a/" * 5_000, "GET"),
    ],
)
def test_index_matches_the_linear_search(path: str, method: str) -> None:
    routes: list[BaseRoute] = [
        Route("/a/b", _answer, methods=["GET"]),
        Route("/a/{any}", _answer, methods=["GET"]),
        Route("/a/b", _answer, methods=["POST"]),
        Route("/a/b/c", _answer, methods=["GET"]),
        Route("/a/{any}/c", _answer, methods=["GET"]),
        Route("/files/{path:path}", _answer),
        Route("/v1:{verb}", _answer),
        Mount("/below", routes=[Route("/a", _answer)]),
        Route("/", _answer),
    ]
    assert _first([RouteIndex(routes), *routes], path, method) == _first(routes, path, method)


def test_literal_path_is_not_read_as_a_parameter() -> None:
    def home(request: Request) -> Response:
        return Response(request.scope["route"].path)

    routes: list[BaseRoute] = [
        Route("/a/{any}", home, methods=["GET", "DELETE"]),
        Route("/a/b", home, methods=["POST"]),
        Route("/a/b", home, methods=["PUT"]),
    ]
    app = FastAPI(routes=[RouteIndex(routes), *routes])
    install_error_handlers(app)
    with serve_app(app) as client:
        assert client.post("/a/b").text == "/a/b"
        assert client.put("/a/b").text == "/a/b"
        refused = client.delete("/a/b")
        assert (refused.status_code, refused.headers["allow"]) == (405, "POST, PUT")
        assert client.delete("/a/c").text == "/a/{any}"
        refused = client.put("/a/c")
        assert (refused.status_code, refused.headers["allow"]) == (405, "DELETE, GET, HEAD")
