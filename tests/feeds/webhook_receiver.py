"""An HTTPS receiver on loopback that verifies each request and responds as configured."""

import json
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.feeds.certificates import Pair, self_signed, server_context

LOCALHOST = self_signed("localhost")
# Called for each request. Returns whether the request counts as accepted.
Answer = Callable[[BaseHTTPRequestHandler], bool]


def status(code: int, **headers: str) -> Answer:
    def answer(handler: BaseHTTPRequestHandler) -> bool:
        handler.send_response(code)
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.send_header("Content-Length", "0")
        handler.end_headers()
        return 200 <= code < 300

    return answer


class WebhookReceiver:
    def __init__(self, folder: Path, *, pair: Pair = LOCALHOST) -> None:
        # (headers, body), as received.
        self.requests: list[tuple[dict[str, str], bytes]] = []
        self.taken: list[dict[str, Any]] = []
        # One response for each of the next requests. Later requests get `usual`.
        self.answers: list[Answer] = []
        self.usual: Answer = status(204)
        # Longest wait of a response that waits.
        self.is_over = threading.Event()
        self._context = server_context(folder, pair)

    @property
    def names(self) -> list[str]:
        return [event["user"]["name"] for event in self.taken]

    @property
    def ids(self) -> list[str]:
        return [event["event"]["id"] for event in self.taken]

    @contextmanager
    def listening(self) -> Iterator["WebhookReceiver"]:
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.requests.append((dict(self.headers), body))
                answer = receiver.answers.pop(0) if receiver.answers else receiver.usual
                with suppress(OSError):
                    if answer(self):
                        receiver.taken += json.loads(body)["data"]["events"]

            def log_message(self, *_: object) -> None:
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_: object) -> None:
                """Clients that do not trust the test's certificate close the connection."""

        server = Server(("127.0.0.1", 0), Handler)
        server.socket = self._context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        self.port: int = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield self
        finally:
            self.is_over.set()
            server.shutdown()
            thread.join()
            server.server_close()

    # Responses that fail.

    def slow(self, handler: BaseHTTPRequestHandler) -> bool:
        """Send no response."""
        self.is_over.wait(20)
        return False

    def loris(self, handler: BaseHTTPRequestHandler) -> bool:
        """Send a header one octet at a time, endlessly."""
        handler.wfile.write(b"HTTP/1.1 200 OK\r\nX-A: ")
        while not self.is_over.wait(0.05):
            handler.wfile.write(b"a")
        return False

    def reset(self, handler: BaseHTTPRequestHandler) -> bool:
        handler.close_connection = True
        connection = handler.connection
        assert isinstance(connection, ssl.SSLSocket)
        connection.close()
        return False

    def endless(self, handler: BaseHTTPRequestHandler) -> bool:
        """Send an accepting status, then an endless body."""
        handler.wfile.write(b"HTTP/1.1 200 OK\r\n\r\n")
        with suppress(OSError):
            while not self.is_over.is_set():
                handler.wfile.write(b"x" * 65536)
        return True
