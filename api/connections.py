"""HTTP/1.1 for whoever connects: a request has so long to begin, and so many bytes in all.

uvicorn bounds neither. A head that never ends would be held in memory, each field of eight bytes at a hundred, and a
connection that says nothing would be kept for good.
"""

from asyncio import BaseTransport, TimerHandle, Transport
from typing import cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEAD_SECONDS = 10.0
# Head, body and trailers; no route takes a body of more than half as much.
REQUEST_BYTES_MOST = 128 * 1024


class BoundedHttp(HttpToolsProtocol):
    """Closes the connection of who sends more or takes longer."""

    _waiting: TimerHandle | None = None
    _received = 0

    def connection_made(self, transport: BaseTransport) -> None:
        super().connection_made(cast(Transport, transport))
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._received += len(data)
        if self._received > REQUEST_BYTES_MOST:
            self._close()
        else:
            super().data_received(data)

    def on_headers_complete(self) -> None:
        self._stop_waiting()
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
        self._waiting = self.loop.call_later(HEAD_SECONDS, self._close)

    def _stop_waiting(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    def _close(self) -> None:
        if not self.transport.is_closing():
            self.transport.close()
