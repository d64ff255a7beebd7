"""What each answer tells browsers and caches."""

from starlette.types import ASGIApp, Message, Receive, Scope, Send

_NO_SNIFF = (b"x-content-type-options", b"nosniff")
# Of one asker alone, and never old; what is made or shown once is nowhere else.
_NO_STORE = (b"cache-control", b"no-store")
# Whoever came by TLS comes by it for a year (RFC 6797); behind a proxy that ends TLS it is known by X-Forwarded-Proto.
_STRICT_TRANSPORT = (b"strict-transport-security", b"max-age=31536000")


class ResponseHeaders:
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
