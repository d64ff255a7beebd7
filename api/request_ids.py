"""Ids of requests, which appear in responses, audit entries and the log."""

import secrets

from fastapi import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_HEADER = b"x-request-id"


class RequestIds:
    """Middleware that creates the ids. Ids of clients are ignored, so that each is unique."""

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
                message["headers"] = [*message.get("headers", ()), (_HEADER, request_id.encode())]
            await send(message)

        await self._app(scope, receive, named)


def request_id_of(request: Request) -> str:
    """Id of the request: 16 hex digits."""
    name: str = request.state.request_id
    return name
