"""A customer authority's web server on loopback, which serves its CRL and answers OCSP requests with openssl."""

import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from uuid import uuid4

from cryptography import x509

from pki.issuance import Issuer
from pki.keys import key_pem
from tests.certificates.uploads import pem


@dataclass
class Publisher:
    port: int
    folder: Path
    # By path: the status and body, or the location of a redirect.
    pages: dict[str, tuple[int, bytes] | str] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.port}{path}"

    def index(self, *certificates: tuple[x509.Certificate, str]) -> None:
        """`openssl`'s database of certificates, each marked V (valid) or R (revoked)."""
        lines = []
        for certificate, status in certificates:
            revoked = "260101000000Z" if status == "R" else ""
            serial = f"{certificate.serial_number:X}"
            serial = serial.zfill(len(serial) + len(serial) % 2)
            lines.append(f"{status}\t351231235959Z\t{revoked}\t{serial}\tunknown\t/CN=x\n")
        (self.folder / "index.txt").write_text("".join(lines))

    def answer(self, request: bytes) -> bytes:
        number = uuid4().hex
        asked, answered = self.folder / f"request-{number}", self.folder / f"response-{number}"
        asked.write_bytes(request)
        words = (
            f"openssl ocsp -index {self.folder}/index.txt -CA {self.folder}/ca.pem -rsigner {self.folder}/ca.pem "
            f"-rkey {self.folder}/ca.key -ndays 1 -reqin {asked} -respout {answered}"
        )
        subprocess.run(words.split(), check=True, capture_output=True, timeout=20)
        return answered.read_bytes()


@contextmanager
def publishing(folder: Path, authority: Issuer) -> Iterator[Publisher]:
    (folder / "ca.pem").write_bytes(pem(authority))
    (folder / "ca.key").write_bytes(key_pem(authority.key))

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            publisher.asked.append(f"GET {self.path}")
            page = publisher.pages.get(self.path, (404, b"not here"))
            if isinstance(page, str):
                self.send_response(302)
                self.send_header("location", page)
                self.end_headers()
                return
            self._send(*page)

        def do_POST(self) -> None:
            publisher.asked.append(f"POST {self.path}")
            body = self.rfile.read(int(self.headers["content-length"]))
            self._send(200, publisher.answer(body) if self.path == "/ocsp" else b"nonsense")

        def _send(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Write no access log."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    publisher = Publisher(server.server_address[1], folder)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield publisher
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
