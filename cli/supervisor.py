"""supervisord: its configuration, its start, and its XML-RPC interface on a unix socket."""

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
from cli.fail import Refused
from cli.layout import OTHER_ACCOUNT, Layout
from cli.procfs import is_running

# Searched by every process for radiusd, openssl and the like, whatever the caller's PATH.
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True, slots=True)
class Program:
    name: str
    command: tuple[str, ...]
    folder: Path
    account: Account | None
    # Lower starts earlier and stops later.
    priority: int
    # Beside what all programs get.
    environment: Mapping[str, str] = field(default_factory=dict)
    # A group that the program holds as its effective one only; "" for that of its account.
    effective_group: str = ""
    stop_signal: str = "TERM"
    stop_seconds: int = 20
    # Programs that need the migrated database are started by `up`, once it is.
    starts_with_supervisor: bool = False


@dataclass(frozen=True, slots=True)
class State:
    name: str
    # STOPPED STARTING RUNNING BACKOFF STOPPING EXITED FATAL UNKNOWN
    state: str
    pid: int
    # Epoch seconds; 0 while it does not run.
    started_at: int
    uptime_seconds: int
    description: str


def render(layout: Layout, programs: Iterable[Program]) -> str:
    """supervisord.conf; the values cannot hold a character that means something in it (see `layout.var_dir`)."""
    # Only root's supervisor has to say whom it runs as: it warns otherwise.
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
    # Passwords are hex digits and paths are plain (`layout.var_dir`): nothing needs escaping.
    environment = ",".join(f'{name}="{value}"' for name, value in program.environment.items())
    # The pause between restarts grows by a second each time and supervisord would give up after `startretries`; a
    # process that cannot start because of something else must come back once that is mended.
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
    """setpriv(1) in place of supervisord's `user`: the real group id stays that of the account.

    A process whose real and effective ids differ is not dumpable (prctl(2)): others of the same user can read neither
    its environment nor its memory.
    """
    own = [gid for gid in os.getgrouplist(account.name, account.gid) if gid != account.gid]
    groups = f"--groups={','.join(map(str, own))}" if own else "--clear-groups"
    ids = (f"--reuid={account.uid}", f"--rgid={account.gid}", f"--egid={require_group(group)}")
    return ("setpriv", *ids, groups, "--")


def start(layout: Layout, configuration: Path, environment: Mapping[str, str]) -> None:
    """Start supervisord in the background; children inherit `environment`, which also marks them as this checkout's."""
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
        raise Refused(f"The process supervisor does not start: {(started.stderr or started.stdout).strip()}")
    deadline = time.monotonic() + 10
    while not Supervisor(layout).is_up():
        if time.monotonic() > deadline:
            raise Refused("The process supervisor does not answer.", remedy=f"See {layout.log}/supervisord.log.")
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
        # Where the base class looks for what it has to close.
        self._connection = host, connection
        return connection


class Supervisor:
    """A running supervisord. Calls raise OSError where none answers, Refused where the caller may not ask."""

    def __init__(self, layout: Layout) -> None:
        self._socket = layout.supervisor_socket

    def _call(self, method: str, *arguments: str | bool) -> Any:  # noqa: ANN401 -- what XML-RPC carries
        # The address is required and unused: the transport dials the socket.
        with xmlrpc.client.ServerProxy("http://localhost", _Transport(self._socket)) as proxy:
            try:
                return getattr(proxy, f"supervisor.{method}")(*arguments)
            except PermissionError as exc:
                raise Refused("You may not ask the processes here how they are.", remedy=OTHER_ACCOUNT) from exc

    def is_up(self) -> bool:
        try:
            return bool(self._call("getState")["statename"] == "RUNNING")
        except (OSError, http.client.HTTPException, xmlrpc.client.Fault):
            return False

    def states(self) -> dict[str, State]:
        """Empty where no supervisord answers."""
        try:
            listed = self._call("getAllProcessInfo")
        except (OSError, http.client.HTTPException):
            return {}
        return {
            entry["name"]: State(
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
        """Start a process that is not running; one in its pause before a restart is started at once."""
        state = self.states()[name].state
        if state in ("RUNNING", "STARTING"):
            return
        if state == "BACKOFF":
            self._call("stopProcess", name)
        try:
            self._call("startProcess", name, False)
        except xmlrpc.client.Fault as fault:
            # 60 is ALREADY_STARTED: it came back by itself meanwhile.
            if fault.faultCode != 60:
                raise Refused(f"{name} cannot be started: {fault.faultString}") from fault

    def _ask_to_stop(self, name: str) -> bool:
        """False where it does not run."""
        try:
            return bool(self._call("stopProcess", name, False))
        except xmlrpc.client.Fault:
            return False

    def shut_down(self, *, first: Iterable[str], patience_seconds: float = 60) -> None:
        """Stop the processes `first` at the same time, then the others, then supervisord; returns when it has ended."""
        pid = int(self._call("getPID"))
        deadline = time.monotonic() + patience_seconds
        stopping = [name for name in first if self._ask_to_stop(name)]
        while time.monotonic() < deadline and any(self.states()[name].pid for name in stopping):
            time.sleep(0.05)
        self._call("shutdown")
        while is_running(pid) and time.monotonic() < deadline:
            time.sleep(0.05)
