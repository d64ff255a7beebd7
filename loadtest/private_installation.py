"""A complete private installation of Admit in a temporary folder and on free ports."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Self

from loadtest.installation import REQUIRED_SETTINGS, Installation
from loadtest.processes import BenchError, first_of_free_ports
from nac.kit.settings import Settings, load_settings

_CHECKOUT = Path(__file__).resolve().parent.parent
_PATIENCE_SECONDS = 300


class PrivateInstallation:
    """Runs the installation during a `with` block. At the end, all processes end and all files are deleted."""

    def __init__(self, *, slots: int = 8, **settings: str) -> None:
        """Create the object. `settings` has the values of environment variables, by name without the prefix ADMIT_."""
        self._slots = slots
        self._settings = {f"ADMIT_{name}": value for name, value in settings.items()}

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            home = stack.enter_context(tempfile.TemporaryDirectory(prefix="admit-b-"))
            # The account of the processes must be able to enter the folder.
            Path(home).chmod(0o755)
            self._var = Path(home) / "var"
            first_port = first_of_free_ports(2 * self._slots + 1)
            stack.callback(self._admit, "down", "--purge", "--yes")
            ports = ("--first-port", str(first_port), "--api-port", str(first_port + 2 * self._slots))
            self._admit("up", "--no-demo", "--no-install", *ports)
            self.settings = self._read_settings()
            self.installation = stack.enter_context(Installation(self.settings))
            self._at_end = stack.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self._at_end.close()

    @contextmanager
    def without(self, name: str) -> Iterator[None]:
        """Stop a process of the installation as an administrator does, and start the process again after the block."""
        self._supervise("stop", name)
        try:
            yield
        finally:
            self._supervise("start", name)

    @property
    def environment(self) -> dict[str, str]:
        return _clean_environment() | self._stored()

    def _admit(self, *arguments: str) -> None:
        environment = _clean_environment()
        environment |= {"ADMIT_VAR_DIR": str(self._var), "ADMIT_CELL_SLOTS": str(self._slots)} | self._settings
        _run([str(_CHECKOUT / "admit"), *arguments], environment)

    def _read_settings(self) -> Settings:
        return load_settings(self._stored(), required=REQUIRED_SETTINGS)

    def _stored(self) -> dict[str, str]:
        lines = (self._var / "admit.env").read_text().splitlines()
        return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))

    def _supervise(self, verb: str, name: str) -> None:
        run = json.loads((self._var / "layout.json").read_text())["run"]
        address = f"unix://{run}/supervisor.sock"
        _run([sys.executable, "-P", "-m", "supervisor.supervisorctl", "-s", address, verb, name], dict(os.environ))


def _clean_environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("ADMIT_")}


def _run(command: list[str], environment: dict[str, str]) -> None:
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=_PATIENCE_SECONDS, check=False
    )
    if done.returncode:
        raise BenchError(f"{' '.join(command)}:\n{done.stdout}{done.stderr}")
