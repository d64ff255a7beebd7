"""HTTP/1.1 with limits: time and bytes of a request, and connections of a source.

uvicorn has none of these limits. Without limits, endless headers would fill the memory, idle connections would stay
open forever, and one address could take all connections. This module rejects requests before the application receives
the requests, with problem details (RFC 9457).
"""

from asyncio import BaseTransport, TimerHandle, Transport
from http import HTTPStatus
from typing import ClassVar, Self, cast

from starlette.types import Scope
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from api.concurrency_limit import ConcurrencyLimit, ConcurrencySlot
from api.errors import build_problem
from nac.kit.request_sources import NetworkSet

HEAD_TIMEOUT_SECONDS = 10.0
# Maximum size of a request: headers, body and trailers together. Routes without authentication accept bodies of at most
# half this size.
MAX_REQUEST_BYTES = 128 * 1024
_CHUNK_BYTES = 64 * 1024
_ENDLESS_KEY = "admit.endless"
_CLOSING_HEADERS = {"Connection": "close", "Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}


def mark_endless(scope: Scope) -> None:
    """Note that the response does not end. A shutdown then closes the connection instead of waiting."""
    scope[_ENDLESS_KEY] = True


class BoundedHttp(HttpToolsProtocol):
    """Rejects requests over a limit and closes the connection."""

    # Limit on connections; None if the listener counts the connections.
    _places: ClassVar[ConcurrencyLimit | None] = None
    _proxies: ClassVar[NetworkSet] = NetworkSet("")
    _max_request_bytes: ClassVar[int] = MAX_REQUEST_BYTES

    _place: ConcurrencySlot | None = None
    _waiting: TimerHandle | None = None
    _received = 0
    _in_head = True

    @classmethod
    def with_limit(cls, places: ConcurrencyLimit, *, proxies: NetworkSet) -> type[Self]:
        """Return a subclass that limits connections with `places`. Connections from `proxies` have no limit."""
        return type(cls.__name__, (cls,), {"_places": places, "_proxies": proxies})

    def connection_made(self, transport: BaseTransport) -> None:
        super().connection_made(cast(Transport, transport))
        if self._places is not None and self.client is not None and self.client[0] not in self._proxies:
            self._place = self._places.take(self.client[0])
            if self._place is None:
                self._close()
                return
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        if self._place is not None:
            self._place.leave()
        super().connection_lost(exc)

    def shutdown(self) -> None:
        super().shutdown()
        if self.scope is not None and _ENDLESS_KEY in self.scope:
            # The client may not read the rest.
            self.transport.abort()

    def data_received(self, data: bytes) -> None:
        """Parse the data in pieces, so that bytes after the headers do not count as headers."""
        for start in range(0, len(data), _CHUNK_BYTES):
            piece = data[start : start + _CHUNK_BYTES]
            self._received += len(piece)
            if self._in_head and self._received > MAX_REQUEST_BYTES:
                self._refuse(
                    HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
                    f"The limit for URL and headers is {MAX_REQUEST_BYTES} bytes.",
                    "Send long values in the body.",
                )
            elif self._received > self._max_request_bytes:
                self._refuse(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"The limit is {self._max_request_bytes} bytes.")
            if self.transport.is_closing():
                return
            super().data_received(piece)

    def send_400_response(self, msg: str) -> None:
        self._refuse(HTTPStatus.BAD_REQUEST, "Invalid HTTP/1.1 request (RFC 9112).", "Check URL, headers and lengths.")

    def on_message_begin(self) -> None:
        self._in_head = True
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._stop_waiting()
        self._in_head = False
        super().on_headers_complete()

    def on_response_complete(self) -> None:
        # The next request may have arrived already.
        answered_last = not self.pipeline
        super().on_response_complete()
        self._received = 0
        if answered_last:
            self._await_head()

    def _await_head(self) -> None:
        self._stop_waiting()
        self._waiting = self.loop.call_later(HEAD_TIMEOUT_SECONDS, self._give_up)

    def _stop_waiting(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    def _give_up(self) -> None:
        if self._received:
            self._refuse(
                HTTPStatus.REQUEST_TIMEOUT,
                f"URL and headers must arrive within {HEAD_TIMEOUT_SECONDS:g} s.",
                "Try again.",
            )
        else:
            self._close()

    def _refuse(self, status: HTTPStatus, detail: str, remedy: str = "") -> None:
        """Close the connection. Before, send a problem response, unless a response has already started."""
        is_answering = self.cycle is not None and self.cycle.response_started and not self.cycle.response_complete
        if not is_answering and not self.transport.is_closing():
            told = {"detail": detail, "remedy": remedy}
            answer = build_problem(
                status=status,
                code=status.phrase.lower().replace(" ", "-"),
                title=status.phrase,
                headers=_CLOSING_HEADERS,
                **told,
            )
            head = [f"HTTP/1.1 {status.value} {status.phrase}".encode()]
            head += [name + b": " + value for name, value in answer.raw_headers]
            self.transport.write(b"\r\n".join((*head, b"", bytes(answer.body))))
        self._close()

    def _close(self) -> None:
        if not self.transport.is_closing():
            self.transport.close()


class HttpWithFiles(BoundedHttp):
    """HTTP for the API, with larger bodies. api.json_input enforces the limit of each route."""

    _max_request_bytes = 32 * 1024 * 1024
