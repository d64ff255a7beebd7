"""An application served by a real uvicorn on a unix socket, and a client for it."""

import socket
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import uvicorn
from fastapi import FastAPI


@contextmanager
def served(app: FastAPI) -> Iterator[httpx.Client]:
    with tempfile.TemporaryDirectory(prefix="admit-api-") as folder:
        path = str(Path(folder) / "api.sock")
        transport = httpx.HTTPTransport(uds=path)
        with (
            _running(uvicorn.Config(app, uds=path, log_level="critical", lifespan="on")),
            httpx.Client(transport=transport, base_url="http://api", trust_env=False) as client,
        ):
            yield client


@contextmanager
def listening(app: FastAPI) -> Iterator[str]:
    """On a free TCP port of loopback, for clients that are programs; its URL."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        with _running(uvicorn.Config(app, log_level="critical", lifespan="on"), listener):
            yield f"http://127.0.0.1:{port}"


@contextmanager
def _running(config: uvicorn.Config, *sockets: socket.socket) -> Iterator[None]:
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, args=(list(sockets) or None,))
    thread.start()
    try:
        deadline = time.monotonic() + 10
        while not server.started:
            assert thread.is_alive()
            assert time.monotonic() < deadline
            time.sleep(0.01)
        yield
    finally:
        server.should_exit = True
        thread.join(10)
