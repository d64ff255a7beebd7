"""A private Redis for one test, in a temporary directory, with a unix socket and nothing on disk."""

import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path

from tests.polling import PATIENCE_SECONDS


class RedisServer:
    def __init__(self) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="admit-redis-"))
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def socket(self) -> Path:
        return self.directory / "redis.sock"

    @property
    def url(self) -> str:
        return f"unix://{self.socket}"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        settings = ["--port", "0", "--unixsocket", str(self.socket), "--save", "", "--dir", str(self.directory)]
        self._process = subprocess.Popen(["redis-server", *settings], stdout=subprocess.DEVNULL)
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
                if probe.connect_ex(str(self.socket)) == 0:
                    return
            if time.monotonic() > deadline:
                raise RuntimeError("Redis does not start")
            time.sleep(0.02)

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait(PATIENCE_SECONDS)
            self._process = None

    def remove(self) -> None:
        self.stop()
        shutil.rmtree(self.directory)
