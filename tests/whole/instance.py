"""A complete Admit that `./admit up` starts in a temporary directory. Every process is real.

Closing it asserts that no process or file remains.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, Unpack

import psycopg

from cli import envfile, health, procfs
from cli.account import RunAs, is_root, require_account
from cli.layout import CHECKOUT, Layout
from cli.supervisor import ProgramState, Supervisor
from loadtest.installation import Installation
from nac.kit.settings import Settings, load_settings
from radius.agent.paths import CellPaths
from tests.frozen_processes import frozen
from tests.polling import until
from tests.ports import free_row

PROCESSES = ("postgres", "redis", "agent", "api", "public", "enrolment", "worker")
# One slot for each tenant that a test creates, including the long tests, and a few free slots.
SLOTS = 16
# Enough for minutes of load without PostgreSQL.
CELL_DISK_BYTES = 256 << 20


class Instance:
    def __init__(self) -> None:
        # A short path, because sockets lie below it (unix(7)). The accounts of the processes can enter it.
        self.home = Path(tempfile.mkdtemp(prefix="admit-f-"))
        self.home.chmod(0o755)
        self.var = self.home / "var"
        self.first_port = self.api_port = free_row(udp=2 * SLOTS + 2, tcp=3)
        self.mounts: list[Path] = []
        self._environment = {name: value for name, value in os.environ.items() if not name.startswith("ADMIT_")} | {
            "ADMIT_VAR_DIR": str(self.var),
            "ADMIT_CELL_SLOTS": str(SLOTS),
        }

    # -- commands

    def admit(
        self, *arguments: str, path: str = "", text: str = "", **identity: Unpack[RunAs]
    ) -> subprocess.CompletedProcess[str]:
        """Run `./admit`. With `path`, programs are searched there first."""
        environment = self._environment
        if path:
            environment = environment | {"PATH": f"{path}:{environment['PATH']}"}
        return subprocess.run(
            [CHECKOUT / "admit", *arguments],
            env=environment,
            input=text,
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
            **identity,
        )

    def give_cell_its_own_disk(self, size_bytes: int) -> None:
        """Create a small disk for all files of the cell, which a test can fill. Root calls it before the first `up`."""
        if not is_root():
            return
        owner = require_account("agent")
        cell = self.var / "cells" / "cell-1"
        cell.mkdir(parents=True)
        options = f"size={size_bytes},mode=0700,uid={owner.uid},gid={owner.gid}"
        command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", cell]
        mounted = subprocess.run(command, capture_output=True, check=False)
        if mounted.returncode == 0:
            self.mounts.append(cell)

    def take_disk_away(self) -> None:
        """Unmount the cell's disk when no process runs. Its contents are lost."""
        while self.mounts:
            subprocess.run(["umount", self.mounts.pop()], check=True)

    def try_up(self, *, path: str = "") -> subprocess.CompletedProcess[str]:
        ports = ("--first-port", str(self.first_port), "--api-port", str(self.api_port))
        return self.admit("up", "--no-demo", "--no-install", *ports, path=path)

    def up(self) -> None:
        done = self.try_up()
        # After a purge, the settings contain new passwords.
        vars(self).pop("settings", None)
        assert done.returncode == 0, f"./admit up: {done.stdout}{done.stderr}\n{self.last_lines()}"

    def ensure_well(self) -> None:
        if self.complaints():
            self.up()
        self.wait_until_well()

    def close(self) -> None:
        """End every process and remove every file. Raises AssertionError if a process remains."""
        if "installation" in vars(self):
            self.installation.close()
        was_arranged = (self.var / "layout.json").exists()
        # A mounted directory cannot be removed.
        done = self.admit("down") if self.mounts else self.admit("down", "--purge", "--yes")
        sessions = CellPaths(self.var / "cells" / "cell-1").sessions
        try:
            assert done.returncode == 0, f"./admit down: {done.stdout}{done.stderr}"
            assert self.processes() == []
            if was_arranged and not self.mounts:
                assert not self.var.exists()
                assert not sessions.exists()
        finally:
            procfs.end_processes(self.processes())
            self.take_disk_away()
            shutil.rmtree(sessions, ignore_errors=True)
            shutil.rmtree(self.home)

    def processes(self) -> list[procfs.Process]:
        """Every process that has this instance's directory in its environment or command line, or as its folder."""
        mark = os.fsencode(self.home)
        return [process for process in procfs.list_processes() if _refers_to(process.pid, mark)]

    # -- properties

    @cached_property
    def layout(self) -> Layout:
        return layout_of(self.var)

    @cached_property
    def settings(self) -> Settings:
        return load_settings(envfile.read(self.var / "admit.env"))

    @cached_property
    def installation(self) -> Installation:
        return Installation(self.settings)

    @property
    def cell(self) -> CellPaths:
        return CellPaths(self.settings.cell_dir)

    def states(self) -> dict[str, ProgramState]:
        return Supervisor(self.layout).states()

    def complaints(self) -> dict[str, str]:
        return complaints(self.layout, self.settings)

    def status(self) -> dict[str, Any]:
        return health.read_cell_status(self.cell.root)

    def counter(self, name: str) -> int:
        return int((self.status().get("counters") or {}).get(name, 0))

    def alarm(self, code: str) -> str:
        """The detail of a current alarm, "" without this alarm."""
        return self._alarms().get(code, "")

    def alarm_codes(self) -> set[str]:
        return set(self._alarms())

    def _alarms(self) -> dict[str, str]:
        return {alarm["code"]: alarm["detail"] for alarm in self.status().get("alarms", ())}

    def log(self, name: str) -> str:
        return (self.layout.log / f"{name}.log").read_text(errors="replace")

    def last_lines(self) -> str:
        logs = sorted(self.var.glob("log/*.log")) + sorted(self.var.glob("cells/*/*.log"))
        return "\n".join(f"--- {log.name}\n" + log.read_text(errors="replace")[-2000:] for log in logs)

    # -- faults

    def pid(self, name: str) -> int:
        """The process id of a supervised process, of radiusd or of supervisord, or ProcessLookupError."""
        if name == "radiusd":
            pid = int(json.loads(self.cell.running.read_text())["pid"])
        elif name == "supervisord":
            pid = int((self.layout.run / "supervisord.pid").read_text())
        else:
            states = self.states()
            pid = states[name].pid if name in states else 0
        if not pid or not procfs.is_running(pid):
            raise ProcessLookupError(f"{name} does not run")
        return pid

    def kill(self, name: str) -> int:
        """Send SIGKILL. Returns the process id of the killed process."""
        pid = self.pid(name)
        os.kill(pid, signal.SIGKILL)
        until(lambda: not procfs.is_running(pid), f"the end of {name}")
        return pid

    @contextmanager
    def frozen(self, name: str) -> Iterator[None]:
        """Freeze the process and its children (SIGSTOP). Connections to it hang instead of failing."""
        with frozen(self.pid(name)):
            yield

    @contextmanager
    def stopped(self, name: str) -> Iterator[None]:
        """Stop the process as an administrator does, and start it at the end of the block."""
        self._supervise("stop", name)
        try:
            yield
        finally:
            self._supervise("start", name)

    def _supervise(self, action: str, name: str) -> None:
        address = f"unix://{self.layout.supervisor_socket}"
        command = [sys.executable, "-P", "-m", "supervisor.supervisorctl", "-s", address, action, name]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, cwd=self.home)
        assert done.returncode == 0, done.stdout + done.stderr

    # -- data

    def query(self, sql: str, *parameters: object) -> list[tuple[Any, ...]]:
        """Run SQL as the superuser of the cluster. It is committed at once."""
        with self.connect() as connection:
            cursor = connection.execute(sql.encode(), parameters)
            return cursor.fetchall() if cursor.description else []

    def connect(self) -> psycopg.Connection:
        return psycopg.connect(
            dbname="admit", user="postgres", host=str(self.layout.postgres_run), autocommit=True, connect_timeout=10
        )

    def wait_until_well(self) -> None:
        until(lambda: not self.complaints(), "every process is well")

    def wait_until_shipped(self) -> None:
        self.installation.wait_until_shipped()


def layout_of(var: Path) -> Layout:
    stored = json.loads((var / "layout.json").read_text())
    return Layout(var, Path(stored["run"]), Path(stored["postgres"]), None, is_separated=stored["is_separated"])


def complaints(layout: Layout, settings: Settings) -> dict[str, str]:
    """Errors by process, as in `./admit status`. Empty if every process is healthy."""
    states = Supervisor(layout).states()
    found = {name: "not running" for name in PROCESSES if name not in states or states[name].state != "RUNNING"}
    for name in PROCESSES:
        if name not in found:
            wrong = health.find_problem(name, layout, settings, started_at=states[name].started_at)
            if wrong:
                found[name] = wrong
    return found


def _refers_to(pid: int, mark: bytes) -> bool:
    place = procfs.PROC / str(pid)
    try:
        if mark in (place / "environ").read_bytes() or mark in (place / "cmdline").read_bytes():
            return pid != os.getpid()
        return os.fsencode(os.readlink(place / "cwd")).startswith(mark)
    except OSError:
        return False
