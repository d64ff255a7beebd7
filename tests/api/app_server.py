"""An application on a unix socket or a loopback port, served by uvicorn, and a client of the application."""

import socket
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import uvicorn
from fastapi import FastAPI

from api import application
from api.connections import BoundedHttp, HttpWithFiles
from nac.certificates import status_lookup
from nac.kit.settings import Settings, load_settings
from tests.factories.certificates import write_master_key
from tests.polling import PATIENCE_SECONDS
from tests.postgres import Database
from tests.shared_engines import shared_engine

_AS_SERVED: dict[str, Any] = {"http": BoundedHttp, "log_level": "critical", "lifespan": "on"}

# One connection per request, because httpx may close a pooled connection that another thread has just taken (EBADF).
_NONE_KEPT = httpx.Limits(max_keepalive_connections=0)
# Shutdown timeout of an application in seconds.
status_lookup._POLL_SECONDS = 0.02
application.make_engine = shared_engine


def settings_of_public(database: Database, folder: Path, **variables: str) -> Settings:
    """Settings of the `public` process, with the key that opens values sealed by SEALER."""
    usual = {
        "ADMIT_VAR_DIR": "/nonexistent",
        "ADMIT_DATABASE_URL": database.app_url,
        # Redis is down, and no public route depends on it.
        "ADMIT_REDIS_URL": "unix:///nonexistent",
        "ADMIT_MASTER_KEY_FILE": str(write_master_key(folder)),
        "ADMIT_PUBLIC_REQUESTS_PER_SECOND": "0",
        "ADMIT_API_REQUESTS_PER_MINUTE": "0",
        "ADMIT_API_OWNER_REQUESTS_PER_MINUTE": "0",
        "ADMIT_API_FAILURES_PER_MINUTE": "0",
    }
    return load_settings(usual | variables)


@contextmanager
def serve_app(app: FastAPI, **changes: Any) -> Iterator[httpx.Client]:
    """Serve the application on a unix socket. `changes` override uvicorn's configuration."""
    with tempfile.TemporaryDirectory(prefix="admit-api-") as folder:
        path = str(Path(folder) / "api.sock")
        with running(uvicorn.Server(uvicorn.Config(app, uds=path, **_AS_SERVED | {"http": HttpWithFiles} | changes))):
            # The client uses no TLS, because loading all CA certificates takes longer than many tests.
            transport = httpx.HTTPTransport(uds=path, verify=False, limits=_NONE_KEPT)
            with httpx.Client(transport=transport, base_url="http://api", trust_env=False, timeout=60) as client:
                yield client


@contextmanager
def serve_app_on_port(app: FastAPI, **changes: Any) -> Iterator[str]:
    """Serve on TCP and return the URL without a path. `changes` override uvicorn's configuration."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        config = uvicorn.Config(app, fd=listener.fileno(), **_AS_SERVED | changes)
        with running(uvicorn.Server(config)):
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"


@contextmanager
def running(server: uvicorn.Server) -> Iterator[None]:
    """Run the server in a thread until the block ends."""
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not server.started:
            assert thread.is_alive()
            assert time.monotonic() < deadline
            time.sleep(0.01)
        yield
    finally:
        server.should_exit = True
        thread.join(PATIENCE_SECONDS)
        assert not thread.is_alive(), "the application does not stop"
