"""A tenant's own server for challenges: HTTPS on loopback, as an adapter to Intune would be."""

import json
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from tests.scep.client import name_of, rsa_key

# (status, headers, body) for a request.
Say = Callable[[dict[str, Any]], tuple[int, dict[str, str], bytes]]


def respond_with(status: int = 200, **members: Any) -> Say:
    return lambda asked: (status, {}, json.dumps(members).encode())


class WebhookServer:
    def __init__(self, folder: Path) -> None:
        self.asked: list[dict[str, Any]] = []
        # Received bodies and their headers.
        self.raw: list[tuple[bytes, dict[str, str]]] = []
        self.told = threading.Event()
        self.say: Say = respond_with(decision="deny")
        self._folder = folder
        self.ca_certificate = self._make_certificate()

    def _make_certificate(self) -> str:
        key, now = rsa_key(), datetime.now(UTC)
        builder = x509.CertificateBuilder(name_of("localhost"), name_of("localhost"), key.public_key(), 1)
        builder = builder.not_valid_before(now - timedelta(hours=1)).not_valid_after(now + timedelta(days=1))
        builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        pem = builder.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM)
        private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        (self._folder / "hook.pem").write_bytes(pem + private)
        return pem.decode()

    @contextmanager
    def listening(self) -> Iterator[None]:
        hook = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                members = json.loads(body)
                hook.asked.append(members)
                hook.raw.append((body, dict(self.headers)))
                status, headers, answer = hook.say(members)
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)
                if members["event"] != "validate":
                    hook.told.set()

            def log_message(self, *_: object) -> None:
                pass

        class Server(ThreadingHTTPServer):
            def handle_error(self, *_: object) -> None:
                """Clients that do not trust the test's certificate close the connection."""

        server = Server(("127.0.0.1", 0), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self._folder / "hook.pem")
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            self.port = server.server_address[1]
            yield
        finally:
            server.shutdown()
            thread.join()
            server.server_close()
