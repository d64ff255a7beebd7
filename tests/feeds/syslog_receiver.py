"""A syslog server on loopback that parses strictly and fails at the test's request."""

import socket
import ssl
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.feeds.certificates import Pair, self_signed, server_context
from tests.feeds.syslog_parser import Message, frames, parse
from tests.polling import PATIENCE_SECONDS

LOCALHOST = self_signed("localhost")


class SyslogReceiver:
    def __init__(self, folder: Path, *, pair: Pair = LOCALHOST, of_clients: str = "") -> None:
        self.messages: list[Message] = []
        self.connections = 0
        # The server resets each connection after this number of messages.
        self.reset_after: int | None = None
        # While the event is cleared, the server reads nothing.
        self.reads = threading.Event()
        self.reads.set()
        # The incomplete message at the end of a connection.
        self.rests: list[bytes] = []
        self._context = server_context(folder, pair, of_clients=of_clients)
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0))
        # A small kernel buffer, so that few octets wait there while the server does not read.
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self.port: int = self._listener.getsockname()[1]
        self._open: list[socket.socket] = []

    @property
    def names(self) -> list[str]:
        return [message.body["user"]["name"] for message in self.messages]

    @property
    def ids(self) -> list[str]:
        return [message.parameters["id"] for message in self.messages]

    @contextmanager
    def listening(self) -> Iterator["SyslogReceiver"]:
        thread = threading.Thread(target=self._accept, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self.reads.set()
            # Makes accept() return.
            self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.close()
            for connection in self._open:
                with suppress(OSError):
                    connection.close()
            thread.join(PATIENCE_SECONDS)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._open.append(connection)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, raw: socket.socket) -> None:
        with suppress(OSError), self._context.wrap_socket(raw, server_side=True) as connection:
            with self._lock:
                self.connections += 1
            self._read(connection)

    def _read(self, connection: ssl.SSLSocket) -> None:
        rest, taken = b"", 0
        while self.reads.wait():
            octets = connection.recv(65536)
            if not octets:
                break
            found, rest = frames(rest + octets)
            for frame in found:
                if self.reset_after is not None and taken >= self.reset_after:
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    return
                with self._lock:
                    self.messages.append(parse(frame))
                taken += 1
        self.rests.append(rest)
