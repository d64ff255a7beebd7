"""How large a request may be: what is larger is refused as it comes in, and never held."""

import asyncio
import re
from collections.abc import Mapping
from contextlib import suppress

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.errors import problem

_PATIENCE_SECONDS = 5.0
_DRAINED_BYTES = 24 * 1024 * 1024


class _TooLarge(Exception):
    pass


class BodyLimits:
    """`most` bytes, or what `larger` says of paths that match one of its patterns as a whole."""

    def __init__(self, app: ASGIApp, most: int, larger: Mapping[str, int]) -> None:
        self._app = app
        self._most = most
        self._larger = [(re.compile(pattern), limit) for pattern, limit in larger.items()]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        most = next((limit for path, limit in self._larger if path.fullmatch(scope["path"])), self._most)
        told = dict(scope["headers"]).get(b"content-length", b"0")
        if len(told) > 18 or not told.isdigit() or int(told) > most:
            await self._refuse(most, scope, receive, send)
            return
        came = 0
        begun = False

        async def bounded() -> Message:
            nonlocal came
            message = await receive()
            came += len(message.get("body", b""))
            if came > most:
                raise _TooLarge
            return message

        async def noted(message: Message) -> None:
            nonlocal begun
            if came > most and not begun:
                # What the application makes of a body that broke off.
                raise _TooLarge
            begun = True
            await send(message)

        try:
            await self._app(scope, bounded, noted)
        except _TooLarge:
            await self._refuse(most, scope, receive, send)

    async def _refuse(self, most: int, scope: Scope, receive: Receive, send: Send) -> None:
        """Some more is read and thrown away: who is still sending does not see an answer."""
        came = 0
        with suppress(TimeoutError):
            async with asyncio.timeout(_PATIENCE_SECONDS):
                while came < _DRAINED_BYTES:
                    message = await receive()
                    came += len(message.get("body", b""))
                    if not message.get("more_body", False):
                        break
        await _refusal(most)(scope, receive, send)


def _refusal(most: int) -> ASGIApp:
    return problem(
        status=413,
        code="body-too-large",
        title="The request is too large.",
        detail=f"At most {most} bytes are read.",
        # The rest of the body is in the way of another request.
        headers={"Connection": "close"},
    )
