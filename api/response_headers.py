"""Security and cache headers of all responses."""

from starlette.types import ASGIApp, Message, Receive, Scope, Send

_NO_SNIFF = (b"x-content-type-options", b"nosniff")
# Responses are for one caller and may contain secrets.
_NO_STORE = (b"cache-control", b"no-store")
# HSTS for one year (RFC 6797). Behind a proxy that terminates TLS, X-Forwarded-Proto sets the scheme.
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
