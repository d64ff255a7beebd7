"""HEAD: the response of GET without its body (RFC 9110 9.3.2).

The application sees a GET, with its permission and rate. A streamed response ends after its first part, as if the
client had disconnected.
"""

from collections.abc import Callable, Iterable
from typing import Any, Final, TypeVar

from anyio import CancelScope
from fastapi.routing import iter_route_contexts
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.route_index import RouteIndex

_GET_ONLY_MARK: Final = "is_get_only"
# Headers that only apply to GET (RFC 9110 14.2).
_RANGE_HEADERS: Final = (b"range", b"if-range")

Endpoint = TypeVar("Endpoint", bound=Callable[..., Any])


def mark_get_only(endpoint: Endpoint) -> Endpoint:
    """Mark a GET route that changes something, as protocols require. HEAD is not allowed there."""
    setattr(endpoint, _GET_ONLY_MARK, True)
    return endpoint


def list_allowed_methods(scope: Scope) -> set[str]:
    """Methods of all routes of the path (RFC 9110 15.5.6); empty if there are none."""
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
    """Middleware that runs HEAD as GET. Must be the outermost one."""

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
