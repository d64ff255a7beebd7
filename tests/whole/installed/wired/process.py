"""A daemon of the hostapd family: its process, log and control socket, used through the daemon's own tool."""

import subprocess
from pathlib import Path
from typing import Self

from tests.polling import until
from tests.whole.namespaces import Namespace


class Daemon:
    """A daemon that runs within a `with` block. A subclass adds its configuration to `command`."""

    client: str

    def __init__(self, namespace: Namespace, interface: str, folder: Path) -> None:
        self.namespace = namespace
        self.interface = interface
        self.folder = folder
        self.folder.mkdir()
        self._control = folder / "control"
        self._log = folder / "log"
        self._process: subprocess.Popen[bytes] | None = None

    def command(self) -> list[str | Path]:
        raise NotImplementedError

    def __enter__(self) -> Self:
        self._process = self.namespace.start(self.command(), self._log)
        until(lambda: self.ask("ping").strip() == "PONG", f"{self.client} answers: {self.log()}")
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Stop the daemon as an administrator does. Returns when it has ended."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(20)
            self._process = None

    def ask(self, *words: str) -> str:
        """The response of the control socket, "" while the socket is closed."""
        assert self._process is not None
        assert self._process.poll() is None, f"it ended: {self.log()}"
        command = [self.client, "-p", self._control, "-i", self.interface, *words]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=20).stdout

    def log(self) -> str:
        return self._log.read_text(errors="replace")

    def _write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.write_text(text)
        return path


def fields(answer: str) -> dict[str, str]:
    """The lines `name=value` of a response of a control socket."""
    return dict(line.split("=", 1) for line in answer.splitlines() if "=" in line)
