"""Response headers: request ids, security, caching, and the deprecation of routes (docs/reference/api.md)."""

import secrets
from collections.abc import Mapping
from datetime import UTC, date, datetime, time
from email.utils import format_datetime
from typing import Any

from fastapi import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_REQUEST_ID = b"x-request-id"
_NO_SNIFF = (b"x-content-type-options", b"nosniff")
# Responses are for one caller and may contain secrets.
_NO_STORE = (b"cache-control", b"no-store")
# HSTS for one year (RFC 6797). Behind a proxy that terminates TLS, X-Forwarded-Proto sets the scheme.
_STRICT_TRANSPORT = (b"strict-transport-security", b"max-age=31536000")
_SINCE_KEY, _SUNSET_KEY = "x-deprecated-since", "x-sunset"
_DEPRECATION_POLICY_PATH = "/docs/reference/api.md"


class RequestIds:
    """Middleware that creates the id of each request. Admit ignores ids from clients, so that each id is unique."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = secrets.token_hex(8)
        scope.setdefault("state", {})["request_id"] = request_id

        async def named(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), (_REQUEST_ID, request_id.encode())]
            await send(message)

        await self._app(scope, receive, named)


def request_id_of(request: Request) -> str:
    """Id of the request, in 16 hex digits."""
    name: str = request.state.request_id
    return name


class DeprecationHeaders:
    """Adds the headers Deprecation, Sunset and Link to all responses of deprecated routes, including errors."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def telling(message: Message) -> None:
            if message["type"] == "http.response.start":
                extra = getattr(scope.get("route"), "openapi_extra", None) or {}
                if _SINCE_KEY in extra:
                    message["headers"] = [*message.get("headers", ()), *_build_deprecation_headers(extra)]
            await send(message)

        await self._app(scope, receive, telling)


class ResponseHeaders:
    """Adds security and cache headers to all responses."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def telling(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = list(message.get("headers", ()))
                given = {name.lower() for name, _ in headers}
                wanted = [_NO_SNIFF, _NO_STORE] if scope["path"].startswith("/v1") else [_NO_SNIFF]
                if scope["scheme"] == "https":
                    wanted.append(_STRICT_TRANSPORT)
                message["headers"] = [*headers, *(header for header in wanted if header[0] not in given)]
            await send(message)

        await self._app(scope, receive, telling)


def deprecated(*, since: date, sunset: date) -> Mapping[str, Any]:
    """Arguments for the decorator of a deprecated route, as in `@router.get(path, **deprecated(...))`."""
    return {"deprecated": True, "openapi_extra": {_SINCE_KEY: since.isoformat(), _SUNSET_KEY: sunset.isoformat()}}


def _build_deprecation_headers(extra: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    since, sunset = (_parse_midnight(extra[name]) for name in (_SINCE_KEY, _SUNSET_KEY))
    return [
        (b"deprecation", f"@{int(since.timestamp())}".encode()),
        (b"sunset", format_datetime(sunset, usegmt=True).encode()),
        (b"link", f'<{_DEPRECATION_POLICY_PATH}>; rel="deprecation"; type="text/markdown"'.encode()),
    ]


def _parse_midnight(day: str) -> datetime:
    return datetime.combine(date.fromisoformat(day), time(), UTC)
