"""A name for each request, which its answer, its audit entries and the log have in common."""

import secrets

from fastapi import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_HEADER = b"x-request-id"


class RequestIds:
    """Made here and never taken from the client, so that an entry is one request's alone."""

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
    """16 hex digits."""
    name: str = request.state.request_id
    return name
