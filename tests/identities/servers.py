"""Misbehaving LDAP servers, and a fake identity provider.

A real server cannot misbehave at the test's request.
"""

import json
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs

from nac.inventory.identity_sources.ldap import ber, messages

HOST = "127.0.0.1"
# The response to a complete LDAP message. A list is sent in pieces. None closes the connection.
Respond = Callable[[bytes], bytes | list[bytes] | None]
TRICKLE_SECONDS = 0.02
# The first bytes of a compressed body (RFC 1952 2.3.1).
GZIP = b"\x1f\x8b"


@contextmanager
def ldap_server(respond: Respond) -> Iterator[str]:
    """The URL of a server whose responses the test sets."""
    listener = socket.create_server((HOST, 0))
    connections: list[socket.socket] = []

    def serve(connection: socket.socket) -> None:
        data = b""
        try:
            while received := connection.recv(65536):
                data += received
                while (lengths := ber.parse_lengths(data)) is not None and len(data) >= sum(lengths):
                    message, data = data[: sum(lengths)], data[sum(lengths) :]
                    answer = respond(message)
                    if answer is None:
                        return
                    for piece in answer if isinstance(answer, list) else [answer]:
                        connection.sendall(piece)
                        if isinstance(answer, list):
                            threading.Event().wait(TRICKLE_SECONDS)
        except OSError:
            return
        finally:
            connection.close()

    def accept() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            connections.append(connection)
            threads.append(threading.Thread(target=serve, args=(connection,)))
            threads[-1].start()

    threads: list[threading.Thread] = []
    acceptor = threading.Thread(target=accept)
    acceptor.start()
    try:
        yield f"ldap://{HOST}:{listener.getsockname()[1]}"
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        acceptor.join()
        for connection in connections:
            with_shutdown(connection)
        for thread in threads:
            thread.join()


def with_shutdown(connection: socket.socket) -> None:
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        return


def number_of(message: bytes) -> int:
    return messages.parse_message(message).number


def kind_of(message: bytes) -> int:
    return messages.parse_message(message).kind


def reply(number: int, kind: int, *parts: bytes) -> bytes:
    return ber.sequence((ber.integer(number), ber.sequence(parts, kind)))


def result(number: int, kind: int, code: int, text: str = "") -> bytes:
    return reply(number, kind, ber.integer(code, ber.ENUMERATED), ber.octets(""), ber.octets(text))


def entry(number: int, dn: str, **attributes: str) -> bytes:
    listed = [
        ber.sequence((ber.octets(name), ber.sequence((ber.octets(value),), ber.SET)))
        for name, value in attributes.items()
    ]
    return reply(number, messages.SEARCH_ENTRY, ber.octets(dn), ber.sequence(listed))


@contextmanager
def provider(certificate: str, key: str, answer: Callable[[str, dict[str, str]], tuple[int, object]]) -> Iterator[str]:
    """The https address of an identity provider.

    `answer` receives path and form and returns the status and JSON. Bytes are sent unchanged.
    """

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer({})

        def do_POST(self) -> None:
            form = self.rfile.read(int(self.headers["Content-Length"])).decode()
            self._answer({name: values[0] for name, values in parse_qs(form).items()})

        def _answer(self, form: dict[str, str]) -> None:
            status, document = answer(self.path, form | {"authorization": self.headers.get("Authorization", "")})
            body = document if isinstance(document, bytes) else json.dumps(document).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            if body.startswith(GZIP):
                self.send_header("Content-Encoding", "gzip")
            self.end_headers()
            try:
                self.wfile.write(body)
            except OSError:
                self.close_connection = True

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Write no log."""

    server = ThreadingHTTPServer((HOST, 0), Handler)
    server.daemon_threads = False
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"https://{HOST}:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
