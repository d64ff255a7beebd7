"""Finds the processes of this checkout in /proc (proc(5)), and the memory of each process."""

import os
import signal
import socket
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
# State of a listening socket in net/tcp.
_LISTEN_STATE = "0A"
# These programs overwrite the memory of /proc/PID/environ, so their working folder identifies them.
_KNOWN_BY_FOLDER = {"postgres", "redis-server", "freeradius", "radiusd"}


@dataclass(frozen=True, slots=True)
class Process:
    pid: int
    parent: int
    command: str


def find_server_users(connection: socket.socket) -> set[int]:
    """Return the users (uid) that could read from the other end of a TCP connection on this machine.

    These are the users whose processes listen on the port, and the user that accepted the connection. Before a process
    accepts the connection, the kernel reports user 0 for the connection, but the process still listens. A process can
    stop listening after it accepts, so the function first searches for processes that listen. Returns an empty set if
    no process has the connection.
    """
    port, own_port = connection.getpeername()[1], connection.getsockname()[1]
    listening = {user for state, local, _, user in _list_tcp_sockets() if (state, local) == (_LISTEN_STATE, port)}
    accepted = {user for _, local, remote, user in _list_tcp_sockets() if (local, remote) == (port, own_port)}
    return listening | accepted if accepted else set()


def _list_tcp_sockets() -> Iterator[tuple[str, int, int, int]]:
    """Yield state, local port, remote port and user of each TCP socket on this machine, on any address."""
    for table in ("tcp", "tcp6"):
        try:
            lines = (PROC / "net" / table).read_text("ascii").splitlines()[1:]
        except OSError:
            continue
        # sl, local address:port, remote address:port, state, queues, timer, retransmits, uid
        for fields in map(str.split, lines):
            local, remote = (int(address.rpartition(":")[2], 16) for address in fields[1:3])
            yield fields[3], local, remote, int(fields[7])


def list_processes() -> list[Process]:
    """Yield all processes, except zombies and processes that end during the call."""
    processes = []
    for entry in PROC.iterdir():
        if not entry.name.isdigit():
            continue
        try:
            stat = (entry / "stat").read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
        # "pid (comm) state ppid ..."; comm can contain spaces and parentheses.
        command, _, rest = stat.partition("(")[2].rpartition(")")
        state, parent = rest.split()[:2]
        if state not in "ZX":
            processes.append(Process(int(entry.name), int(parent), command))
    return processes


def find_strays(var: Path, folders: Iterable[Path]) -> list[Process]:
    """Return the processes of the installation `var`.

    A process belongs to `var` if its environment contains the path and a variable of supervisord or `up`. PostgreSQL,
    Redis and radiusd also belong to `var` if their working folder is in `folders`.

    Excludes the caller and the caller's parents.
    """
    spared = _ancestors()
    marks = (b"ADMIT_VAR_DIR=" + os.fsencode(var), b"SUPERVISOR_PROCESS_NAME=", b"ADMIT_SUPERVISOR=")
    places = tuple(folders)
    return [
        process
        for process in list_processes()
        if process.pid not in spared and (_is_marked(process.pid, *marks) or _works_in(process, places))
    ]


def _ancestors() -> set[int]:
    parents = {process.pid: process.parent for process in list_processes()}
    pid, ancestors = os.getpid(), set()
    while pid and pid not in ancestors:
        ancestors.add(pid)
        pid = parents.get(pid, 0)
    return ancestors


def _is_marked(pid: int, var_mark: bytes, *name_marks: bytes) -> bool:
    try:
        environment = (PROC / str(pid) / "environ").read_bytes().split(b"\0")
    except OSError:
        return False
    return var_mark in environment and any(entry.startswith(name_marks) for entry in environment)


def _works_in(process: Process, folders: tuple[Path, ...]) -> bool:
    try:
        program = os.readlink(PROC / str(process.pid) / "exe").removesuffix(" (deleted)")
        working = Path(os.readlink(PROC / str(process.pid) / "cwd").removesuffix(" (deleted)"))
    except OSError:
        return False
    return Path(program).name in _KNOWN_BY_FOLDER and any(working.is_relative_to(folder) for folder in folders)


def end_processes(processes: Iterable[Process], *, patience_seconds: float = 10) -> None:
    """Stop the processes, wait, then kill processes that still run."""
    left = list(processes)
    for process in left:
        # PostgreSQL's fast shutdown is SIGINT: SIGTERM waits for clients (pg_ctl(1)).
        _signal(process.pid, signal.SIGINT if process.command == "postgres" else signal.SIGTERM)
    deadline = time.monotonic() + patience_seconds
    while left and time.monotonic() < deadline:
        time.sleep(0.05)
        left = [process for process in left if is_running(process.pid)]
    for process in left:
        _signal(process.pid, signal.SIGKILL)
    while any(is_running(process.pid) for process in left):
        time.sleep(0.02)


def is_running(pid: int) -> bool:
    """Whether the process exists and is not a zombie."""
    try:
        stat = (PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"


def started_at(pid: int) -> float:
    """Return the start time of the process in epoch seconds; 0 if the process does not exist."""
    try:
        stat = (PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return 0
    # Field 22 is the start in ticks since boot (proc(5)). The first two fields end with the parenthesis.
    ticks = int(stat.rpartition(")")[2].split()[19])
    boot = next(line.split()[1] for line in (PROC / "stat").read_text().splitlines() if line.startswith("btime "))
    return int(boot) + ticks / os.sysconf("SC_CLK_TCK")


def _signal(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return


def memory_kilobytes(root: int) -> int:
    """Return the proportional memory (PSS) in kB of a process with all descendants. Shared pages count once."""
    children: dict[int, list[int]] = {}
    for process in list_processes():
        children.setdefault(process.parent, []).append(process.pid)
    total, todo = 0, [root]
    while todo:
        pid = todo.pop()
        todo += children.get(pid, [])
        total += _proportional_set_size(pid)
    return total


def _proportional_set_size(pid: int) -> int:
    try:
        lines = (PROC / str(pid) / "smaps_rollup").read_text(encoding="ascii").splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
