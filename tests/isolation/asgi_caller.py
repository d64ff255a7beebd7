"""Requests to an application in this process, one at a time and without a server."""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode

from fastapi import FastAPI


@dataclass(frozen=True)
class AsgiResponse:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode("utf-8", "replace")

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def is_event_stream(start: Mapping[str, Any]) -> bool:
    return any(value.startswith(b"text/event-stream") for name, value in start["headers"] if name == b"content-type")


class AsgiCaller:
    """Calls `app` with one credential. Background work of the application does not start."""

    def __init__(self, app: FastAPI) -> None:
        self._app = app
        self._loop = asyncio.new_event_loop()

    def close(self) -> None:
        self._loop.run_until_complete(self._loop.shutdown_default_executor())
        self._loop.close()

    def __call__(
        self,
        method: str,
        path: str,
        *,
        headers: Mapping[str, str],
        body: object = None,
        content: bytes | None = None,
        query: Mapping[str, Any] | None = None,
    ) -> AsgiResponse:
        sent = [("host", "api"), *((name.lower(), value) for name, value in headers.items())]
        if body is not None:
            content = json.dumps(body).encode()
            sent.append(("content-type", "application/json"))
        elif content is not None and "content-type" not in dict(sent):
            sent.append(("content-type", "application/octet-stream"))
        if content is not None:
            sent.append(("content-length", str(len(content))))
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": path,
            "raw_path": quote(path).encode(),
            "query_string": urlencode(query or {}, doseq=True).encode(),
            "root_path": "",
            "headers": [(name.encode(), value.encode()) for name, value in sent],
            "client": ("127.0.0.1", 1),
            "server": ("api", 80),
            "state": {},
        }
        return self._loop.run_until_complete(self._call(scope, content or b""))

    async def _call(self, scope: dict[str, Any], content: bytes) -> AsgiResponse:
        parts: list[dict[str, Any]] = []
        left = [{"type": "http.request", "body": content, "more_body": False}]
        is_over = asyncio.Event()

        async def receive() -> dict[str, Any]:
            if not left:
                await is_over.wait()
                return {"type": "http.disconnect"}
            return left.pop()

        async def send(message: Any) -> None:
            parts.append(message)
            if message["type"] == "http.response.start" and is_event_stream(message):
                # Disconnect, because the stream does not end.
                is_over.set()
            if message["type"] == "http.response.body" and not message.get("more_body"):
                is_over.set()

        await self._app(scope, receive, send)
        (start,) = (part for part in parts if part["type"] == "http.response.start")
        given = {name.decode(): value.decode() for name, value in start["headers"]}
        body = b"".join(part["body"] for part in parts if part["type"] == "http.response.body")
        return AsgiResponse(start["status"], given, body)
