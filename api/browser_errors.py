"""Error pages for browsers: a sentence and a link instead of problem details."""

import json
import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import quote

from fastapi import Request, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.pages import HOME_LINK, PageLink, build_error_page, omit_operations
from api.route_index import RouteIndex

_PROBLEM_MEDIA_TYPE: Final = b"application/problem+json"
# Paths for programs: they never get pages.
_PROGRAM_PATHS: Final = ("/v1", "/openapi.json", "/healthz", "/readyz")
_BODY_HEADERS: Final = (b"content-type", b"content-length")
_ZERO_WEIGHT: Final = re.compile(rb"q=0(\.0{0,3})?")
_NOT_FOUND_SENTENCE: Final = "There is no page at this address."
# Pages do not show details of internal errors.
_SERVER_ERROR_SENTENCE: Final = "An internal error occurred. The server's log has the details."
_TEMPORARY_STATUSES: Final = frozenset({HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE})


def wants_page(scope: Scope, pages: RouteIndex) -> bool:
    """Whether the browser gets errors as pages.

    Errors on the paths in `pages` are always pages. Errors on other paths outside the API are pages if the Accept
    header contains text/html.
    """
    path: str = scope["path"]
    if pages.routes_of(path):
        return True
    is_apis = any(path == each or path.startswith(f"{each}/") for each in _PROGRAM_PATHS)
    return not is_apis and any(name == b"accept" and _accepts_html(value) for name, value in scope["headers"])


def _accepts_html(accept: bytes) -> bool:
    """Whether the Accept header contains text/html with a weight above 0 (RFC 9110 12.5.1).

    Ignores upper and lower case.
    """
    for each in accept.lower().split(b","):
        kind, *parameters = (part.strip() for part in each.split(b";"))
        if kind == b"text/html":
            return not any(_ZERO_WEIGHT.fullmatch(parameter) for parameter in parameters)
    return False


def render_unexpected_error(request: Request) -> Response:
    return build_error_page(
        _SERVER_ERROR_SENTENCE, HTTPStatus.INTERNAL_SERVER_ERROR, _build_links(request.scope, (HOME_LINK,))
    )


class BrowserErrorPages:
    """Middleware that turns problem details into error pages for browsers."""

    def __init__(self, app: ASGIApp, pages: RouteIndex, *, home: tuple[PageLink, ...] = (HOME_LINK,)) -> None:
        """`home` contains the links of an error page, and is empty if the application has no home page."""
        self._app = app
        self._pages = pages
        self._home = home

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not wants_page(scope, self._pages):
            await self._app(scope, receive, send)
            return
        start: Message | None = None
        body = bytearray()

        async def telling(message: Message) -> None:
            nonlocal start
            if message["type"] == "http.response.start" and _is_problem(message):
                start = message
            elif start is None:
                await send(message)
            else:
                body.extend(message.get("body", b""))
                if not message.get("more_body"):
                    await self._page(scope, start, json.loads(body))(scope, receive, send)

        await self._app(scope, receive, telling)

    def _page(self, scope: Scope, start: Message, problem: Mapping[str, Any]) -> Response:
        status: int = start["status"]
        headers = {name.decode(): value.decode() for name, value in start["headers"] if name not in _BODY_HEADERS}
        if status in (HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED):
            sentence = _NOT_FOUND_SENTENCE
        elif status >= HTTPStatus.INTERNAL_SERVER_ERROR and "retry-after" not in headers:
            sentence = _SERVER_ERROR_SENTENCE
        else:
            sentence = f"{problem['detail']} {omit_operations(problem.get('remedy', ''))}".strip()
        ways = _build_links(scope, self._home) if status in _TEMPORARY_STATUSES else self._home
        return build_error_page(sentence, status, ways, headers)


def _is_problem(start: Message) -> bool:
    return any(name == b"content-type" and value == _PROBLEM_MEDIA_TYPE for name, value in start["headers"])


def _build_links(scope: Scope, home: tuple[PageLink, ...]) -> tuple[PageLink, ...]:
    """Build the links of an error page, with a link to try again if the request was a GET."""
    # Browsers interpret the text after two slashes as a host.
    path, query = f"/{quote(scope['path'].lstrip('/'))}", scope["query_string"].decode("latin-1")
    again = PageLink(f"{path}?{query}" if query else path, "Try again")
    return (again, *home) if scope["method"] == "GET" and path != HOME_LINK.to else home
