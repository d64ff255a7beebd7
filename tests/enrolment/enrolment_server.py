"""The enrolment application with real TLS on a loopback port, and curl as its client."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from api.enrolment.__main__ import create_server
from api.enrolment.main import create_app
from api.enrolment.server_certificate import CertificateMaintainer, authority_path, ensure_certificate
from api.enrolment.tls import ServerFiles, TlsContextUpdater, create_tls_context
from nac.kit.settings import Settings, load_settings
from tests.api.app_server import running
from tests.factories.certificates import write_master_key
from tests.postgres import Database


@dataclass(frozen=True)
class CurlReply:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()


@dataclass(frozen=True)
class EstServer:
    """The address of EST, and the file that verifies the server."""

    port: int
    ca: Path
    folder: Path

    def url(self, slug: str, operation: str) -> str:
        return f"https://127.0.0.1:{self.port}/.well-known/est/{slug}/{operation}"

    def ask(self, slug: str, operation: str, *arguments: str, body: bytes | None = None) -> CurlReply:
        """Send `body` as a certificate request with curl."""
        head, out = self.folder / "head", self.folder / "out"
        command = ["curl", "-sS", "--cacert", str(self.ca), "-D", str(head), "-o", str(out), *arguments]
        if body is not None:
            (self.folder / "body").write_bytes(body)
            command += ["--data-binary", f"@{self.folder / 'body'}", "-H", "Content-Type: application/pkcs10"]
        out.unlink(missing_ok=True)
        subprocess.run([*command, self.url(slug, operation)], check=True, capture_output=True, timeout=20)
        status, *lines = head.read_text().strip().splitlines()
        headers = dict(line.split(": ", 1) for line in lines)
        return CurlReply(int(status.split()[1]), headers, out.read_bytes() if out.exists() else b"")


def make_settings(database: Database, folder: Path) -> Settings:
    (folder / "keys").mkdir()
    return load_settings(
        {
            "ADMIT_VAR_DIR": str(folder),
            "ADMIT_DATABASE_URL": database.public_url,
            "ADMIT_REDIS_URL": "unix:///nonexistent",
            "ADMIT_MASTER_KEY_FILE": str(write_master_key(folder / "keys")),
            "ADMIT_PUBLIC_URL": "http://status.admit.example",
        }
    )


@contextmanager
def serving(settings: Settings, folder: Path, *, port: int = 0) -> Iterator[EstServer]:
    """Serve the application, by default on any free port."""
    keys = settings.enrolment_key_file.parent
    keys.mkdir(exist_ok=True)
    assert ensure_certificate(keys, settings, owner=None)
    app = create_app(settings)
    files = ServerFiles(settings.enrolment_certificate_file, settings.enrolment_key_file)
    context = create_tls_context(files)
    caretaker = CertificateMaintainer(settings)
    keeper = TlsContextUpdater(context, files, settings.database_url, look_after=caretaker.look, interval_seconds=0.05)
    server = create_server(app, settings, context)
    server.config.port = port
    server.config.log_level = "critical"
    keeper.refresh()
    keeper.start()
    try:
        with running(server):
            yield EstServer(server.servers[0].sockets[0].getsockname()[1], authority_path(keys), folder)
    finally:
        keeper.stop()
