"""Deprecated routes (docs/reference/api.md): `Deprecation` (RFC 9745) and `Sunset` (RFC 8594)."""

from collections.abc import Mapping
from datetime import UTC, date, datetime, time
from email.utils import format_datetime
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

_SINCE_KEY, _SUNSET_KEY = "x-deprecated-since", "x-sunset"
_POLICY_PATH = "/docs/reference/api.md"


def deprecated(*, since: date, sunset: date) -> Mapping[str, Any]:
    """Arguments of a route's decorator: `@router.get("/old", **deprecated(since=..., sunset=...))`."""
    return {"deprecated": True, "openapi_extra": {_SINCE_KEY: since.isoformat(), _SUNSET_KEY: sunset.isoformat()}}


class DeprecationHeaders:
    """Adds the headers to all responses of deprecated routes, including errors."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def telling(message: Message) -> None:
            if message["type"] == "http.response.start":
                extra = getattr(scope.get("route"), "openapi_extra", None) or {}
                if _SINCE_KEY in extra:
                    message["headers"] = [*message.get("headers", ()), *_build_headers(extra)]
            await send(message)

        await self._app(scope, receive, telling)


def _build_headers(extra: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    since, sunset = (_parse_midnight(extra[name]) for name in (_SINCE_KEY, _SUNSET_KEY))
    return [
        (b"deprecation", f"@{int(since.timestamp())}".encode()),
        (b"sunset", format_datetime(sunset, usegmt=True).encode()),
        (b"link", f'<{_POLICY_PATH}>; rel="deprecation"; type="text/markdown"'.encode()),
    ]


def _parse_midnight(day: str) -> datetime:
    return datetime.combine(date.fromisoformat(day), time(), UTC)
