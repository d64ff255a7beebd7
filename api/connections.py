"""HTTP/1.1 for whoever connects: a request has so long to begin and so many bytes, a source so many connections.

uvicorn bounds none of these. A head that never ends would be held in memory, each field of eight bytes at a hundred, a
connection that says nothing would be kept for good, and one address could hold all connections that there may be.

What is refused here no application sees; it is a problem (RFC 9457) all the same.
"""

from asyncio import BaseTransport, TimerHandle, Transport
from http import HTTPStatus
from typing import ClassVar, Self, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from api.concurrency_limit import ConcurrencyLimit, ConcurrencySlot
from api.errors import build_problem
from nac.request_sources import NetworkSet

HEAD_TIMEOUT_SECONDS = 10.0
# Head, body and trailers; no route that strangers reach takes a body of more than half as much.
MAX_REQUEST_BYTES = 128 * 1024
_CHUNK_BYTES = 64 * 1024
_CLOSING_HEADERS = {"Connection": "close", "Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}


class BoundedHttp(HttpToolsProtocol):
    """Refuses who sends more or takes longer, and closes the connection."""

    # None where whoever accepts connections counts them.
    _places: ClassVar[ConcurrencyLimit | None] = None
    _proxies: ClassVar[NetworkSet] = NetworkSet("")
    _max_request_bytes: ClassVar[int] = MAX_REQUEST_BYTES

    _place: ConcurrencySlot | None = None
    _waiting: TimerHandle | None = None
    _received = 0
    _in_head = True

    @classmethod
    def with_limit(cls, places: ConcurrencyLimit, *, proxies: NetworkSet) -> type[Self]:
        """The same, with so many connections of a source; `proxies` bring those of many, and are not counted."""
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

    def data_received(self, data: bytes) -> None:
        """In pieces: of what comes at once, the head is known to have ended before the rest is counted as its body."""
        for start in range(0, len(data), _CHUNK_BYTES):
            piece = data[start : start + _CHUNK_BYTES]
            self._received += len(piece)
            if self._in_head and self._received > MAX_REQUEST_BYTES:
                self._refuse(
                    HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
                    f"Address and headers may have {MAX_REQUEST_BYTES} bytes.",
                    "Send what is long in the body.",
                )
            elif self._received > self._max_request_bytes:
                self._refuse(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"At most {self._max_request_bytes} bytes are read.")
            if self.transport.is_closing():
                return
            super().data_received(piece)

    def send_400_response(self, msg: str) -> None:
        self._refuse(
            HTTPStatus.BAD_REQUEST, "This cannot be read as HTTP/1.1 (RFC 9112).", "See address, headers and lengths."
        )

    def on_message_begin(self) -> None:
        self._in_head = True
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._stop_waiting()
        self._in_head = False
        super().on_headers_complete()

    def on_response_complete(self) -> None:
        # The next request may be here already.
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
                f"Address and headers have {HEAD_TIMEOUT_SECONDS:g} s to come.",
                "Send it again.",
            )
        else:
            self._close()

    def _refuse(self, status: HTTPStatus, detail: str, remedy: str = "") -> None:
        """Says so where nothing else has been said yet, and closes."""
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
    """Of the API, which takes more: how much says api.json_input, in a sentence. Heads are as small as elsewhere."""

    _max_request_bytes = 32 * 1024 * 1024
