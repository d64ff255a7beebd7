"""HEAD: what GET would be answered with, without the body (RFC 9110 9.3.2).

All that is behind this sees a GET: its permission, its rate and its place are those of GET. What is written in parts is
left off with the first of them, as if whoever asked had gone.
"""

from collections.abc import Callable, Iterable
from typing import Any, Final, TypeVar

from anyio import CancelScope
from fastapi.routing import iter_route_contexts
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.route_index import RouteIndex

_GET_ONLY_MARK: Final = "is_get_only"
# Of GET alone (RFC 9110 14.2).
_RANGE_HEADERS: Final = (b"range", b"if-range")

Endpoint = TypeVar("Endpoint", bound=Callable[..., Any])


def mark_get_only(endpoint: Endpoint) -> Endpoint:
    """Of a route by which something is done for good, although protocols ask for it by GET: HEAD does nothing there."""
    setattr(endpoint, _GET_ONLY_MARK, True)
    return endpoint


def list_allowed_methods(scope: Scope) -> set[str]:
    """Of all routes of the path (RFC 9110 15.5.6); the framework names those of one. None where there is no route."""
    path, routes = scope["path"], scope["app"].router.routes
    indexed = [route for index in routes if isinstance(index, RouteIndex) for route in index.routes_of(path)]
    of_path: list[Any] = [*indexed] or [route for route in iter_route_contexts(routes) if _matches_path(route, path)]
    return {method for route in of_path for method in _list_route_methods(route)}


def _matches_path(route: object, path: str) -> bool:
    pattern = getattr(route, "path_regex", None)
    return pattern is not None and pattern.match(path) is not None


def _list_route_methods(route: Any) -> Iterable[str]:  # noqa: ANN401 -- one of Starlette, or of FastAPI
    methods: set[str] = set(route.methods or ())
    return methods | ({"HEAD"} if "GET" in methods and not getattr(route.endpoint, _GET_ONLY_MARK, False) else set())


class HeadAsGet:
    """Outside of all that looks at requests."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self._app(scope, receive, send)
            return
        with CancelScope() as answering:

            async def without_body(message: Message) -> None:
                if message["type"] == "http.response.start":
                    await send(message)
                elif not answering.cancel_called:
                    await send({"type": "http.response.body", "body": b""})
                    if message.get("more_body"):
                        answering.cancel()

            await self._app(
                _convert_to_get(scope) if "HEAD" in list_allowed_methods(scope) else scope, receive, without_body
            )


def _convert_to_get(scope: Scope) -> Scope:
    headers = [(name, value) for name, value in scope["headers"] if name not in _RANGE_HEADERS]
    return {**scope, "method": "GET", "headers": headers}
