"""An application served by a real uvicorn on a unix socket, and a client for it."""

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
        server = uvicorn.Server(uvicorn.Config(app, uds=path, log_level="critical", lifespan="on"))
        thread = threading.Thread(target=server.run)
        thread.start()
        try:
            deadline = time.monotonic() + 10
            while not server.started:
                assert thread.is_alive()
                assert time.monotonic() < deadline
                time.sleep(0.01)
            transport = httpx.HTTPTransport(uds=path)
            with httpx.Client(transport=transport, base_url="http://api", trust_env=False) as client:
                yield client
        finally:
            server.should_exit = True
            thread.join(10)
