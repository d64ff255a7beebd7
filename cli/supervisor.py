"""Control of supervisord, which runs all processes: configuration, start, and XML-RPC on a unix socket."""

import http.client
import os
import shlex
import socket
import subprocess
import sys
import time
import xmlrpc.client
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cli.account import Account, is_root, require_group
from cli.errors import Refused
from cli.layout import OTHER_ACCOUNT_REMEDY, Layout
from cli.procfs import is_running

# PATH of every process, independent of the caller's PATH. It contains radiusd and openssl.
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True, slots=True)
class Program:
    name: str
    command: tuple[str, ...]
    folder: Path
    account: Account | None
    # Programs with a lower number start earlier and stop later.
    priority: int
    # Environment variables of only this program, in addition to the variables of all programs.
    environment: Mapping[str, str] = field(default_factory=dict)
    # Effective group of the program; "" for the group of its account.
    effective_group: str = ""
    stop_signal: str = "TERM"
    stop_seconds: int = 20
    # Whether supervisord starts the program. If not, `up` starts the program after the migration of the database.
    starts_with_supervisor: bool = False


@dataclass(frozen=True, slots=True)
class ProgramState:
    name: str
    # STOPPED STARTING RUNNING BACKOFF STOPPING EXITED FATAL UNKNOWN
    state: str
    pid: int
    # Start time in epoch seconds; 0 if the process is not running.
    started_at: int
    uptime_seconds: int
    description: str


def render_configuration(layout: Layout, programs: Iterable[Program]) -> str:
    """Return the text of supervisord.conf. Values contain no special characters (see `layout.var_dir`)."""
    # Without `user`, supervisord warns if it runs as root. Other accounts cannot set it.
    user = "user=root\n" if is_root() else ""
    head = f"""\
[supervisord]
identifier=admit
logfile={layout.log}/supervisord.log
logfile_maxbytes=5MB
logfile_backups=2
pidfile={layout.run}/supervisord.pid
childlogdir={layout.log}
umask=027
{user}
[unix_http_server]
file={layout.supervisor_socket}
chmod=0700

[rpcinterface:supervisor]
supervisor.rpcinterface_factory=supervisor.rpcinterface:make_main_rpcinterface
"""
    return head + "".join(_section(layout, program) for program in programs)


def _section(layout: Layout, program: Program) -> str:
    command, user = program.command, ""
    if program.account and program.effective_group:
        command = (*_with_effective_group(program.account, program.effective_group), *command)
    elif program.account:
        user = f"user={program.account.name}\n"
    # Passwords are hex digits and paths are plain (`layout.var_dir`), so no escaping is needed.
    environment = ",".join(f'{name}="{value}"' for name, value in program.environment.items())
    # After each failed start, supervisord waits a second longer. It gives up after `startretries`, so this number is
    # large: a process must start when its cause of failure is gone.
    return f"""
[program:{program.name}]
command={shlex.join(command)}
environment={environment}
directory={program.folder}
priority={program.priority}
autostart={"true" if program.starts_with_supervisor else "false"}
autorestart=true
startsecs=1
startretries=1000
stopsignal={program.stop_signal}
stopwaitsecs={program.stop_seconds}
redirect_stderr=true
stdout_logfile={layout.log}/{program.name}.log
stdout_logfile_maxbytes=10MB
stdout_logfile_backups=3
{user}"""


def _with_effective_group(account: Account, group: str) -> tuple[str, ...]:
    """Return the command with setpriv(1), which sets only the effective group id. supervisord has no setting for that.

    If real and effective ids differ, other processes of the same user cannot read environment or memory of the
    process (prctl(2)).
    """
    own = [gid for gid in os.getgrouplist(account.name, account.gid) if gid != account.gid]
    groups = f"--groups={','.join(map(str, own))}" if own else "--clear-groups"
    ids = (f"--reuid={account.uid}", f"--rgid={account.gid}", f"--egid={require_group(group)}")
    return ("setpriv", *ids, groups, "--")


def start(layout: Layout, configuration: Path, environment: Mapping[str, str]) -> None:
    """Start supervisord in the background.

    Children of supervisord inherit `environment`, by which `down` recognises processes of this checkout.
    """
    started = subprocess.run(
        [sys.executable, "-P", "-m", "supervisor.supervisord", "-c", str(configuration)],
        cwd="/",
        env={
            "PATH": _PATH,
            "LANG": "C.UTF-8",
            "HOME": str(layout.var),
            "PYTHONUNBUFFERED": "1",
            "ADMIT_SUPERVISOR": "1",
            **environment,
        },
        capture_output=True,
        text=True,
        check=False,
        umask=0o027,
    )
    if started.returncode:
        raise Refused(f"Cannot start the process supervisor: {(started.stderr or started.stdout).strip()}")
    deadline = time.monotonic() + 10
    while not Supervisor(layout).is_up():
        if time.monotonic() > deadline:
            raise Refused("The process supervisor does not respond.", remedy=f"See {layout.log}/supervisord.log.")
        time.sleep(0.05)


class _Connection(http.client.HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=60)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


class _Transport(xmlrpc.client.Transport):
    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = str(path)

    def make_connection(self, host: Any) -> _Connection:  # noqa: ANN401 -- the base class's union of shapes
        connection = _Connection(self._path)
        # The base class closes the connection in this attribute.
        self._connection = host, connection
        return connection


class Supervisor:
    """Connection to a running supervisord.

    Calls raise OSError if supervisord does not respond, and Refused without permission.
    """

    def __init__(self, layout: Layout) -> None:
        self._socket = layout.supervisor_socket

    def _call(self, method: str, *arguments: str | bool) -> Any:  # noqa: ANN401 -- what XML-RPC carries
        # The class requires an address, but does not use it: the transport connects to the socket.
        with xmlrpc.client.ServerProxy("http://localhost", _Transport(self._socket)) as proxy:
            try:
                return getattr(proxy, f"supervisor.{method}")(*arguments)
            except PermissionError as exc:
                raise Refused("No permission to read the state of the processes.", remedy=OTHER_ACCOUNT_REMEDY) from exc

    def is_up(self) -> bool:
        try:
            return bool(self._call("getState")["statename"] == "RUNNING")
        except (OSError, http.client.HTTPException, xmlrpc.client.Fault):
            return False

    def states(self) -> dict[str, ProgramState]:
        """Return the state of each process; empty if supervisord does not respond."""
        try:
            listed = self._call("getAllProcessInfo")
        except (OSError, http.client.HTTPException):
            return {}
        return {
            entry["name"]: ProgramState(
                entry["name"],
                entry["statename"],
                entry["pid"],
                entry["start"] if entry["pid"] else 0,
                max(0, entry["now"] - entry["start"]) if entry["pid"] else 0,
                entry["description"],
            )
            for entry in listed
        }

    def ensure_started(self, name: str) -> None:
        """Start a process if the process is not running, even during the pause before a restart."""
        state = self.states()[name].state
        if state in ("RUNNING", "STARTING"):
            return
        if state == "BACKOFF":
            self._call("stopProcess", name)
        try:
            self._call("startProcess", name, False)
        except xmlrpc.client.Fault as fault:
            # Code 60 is ALREADY_STARTED: supervisord has restarted the process meanwhile.
            if fault.faultCode != 60:
                raise Refused(f"Cannot start {name}: {fault.faultString}") from fault

    def _ask_to_stop(self, name: str) -> bool:
        """Request that the process stops. Returns False if the process is not running."""
        try:
            return bool(self._call("stopProcess", name, False))
        except xmlrpc.client.Fault:
            return False

    def shut_down(self, *, first: Iterable[str], patience_seconds: float = 60) -> None:
        """Stop the processes `first` together, then all other processes, then supervisord.

        Returns when supervisord has ended, or after `patience_seconds`.
        """
        pid = int(self._call("getPID"))
        deadline = time.monotonic() + patience_seconds
        stopping = [name for name in first if self._ask_to_stop(name)]
        while time.monotonic() < deadline and any(self.states()[name].pid for name in stopping):
            time.sleep(0.05)
        self._call("shutdown")
        while is_running(pid) and time.monotonic() < deadline:
            time.sleep(0.05)
