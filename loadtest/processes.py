"""Functions to start and end the processes of a benchmark, to choose their OS accounts, to find free ports, and to
measure the CPU time of a process tree.
"""

import multiprocessing
import os
import pwd
import random
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

from loadtest.tally import RunResult

LOOPBACK = "127.0.0.1"
_KINDS = (socket.SOCK_DGRAM, socket.SOCK_STREAM)
_FORK = multiprocessing.get_context("fork")
_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


class BenchError(Exception):
    """The benchmark cannot run, or its result is not reliable. The message has the cause and the remedy."""


def find_account(name: str) -> str | None:
    """Return `name` if this process is root and that account exists.

    Otherwise return None, which means the account of this process.
    """
    if os.geteuid() != 0:
        return None
    try:
        return pwd.getpwnam(name).pw_name
    except KeyError:
        return None


def chown_tree(path: Path, owner: str | None) -> None:
    """Change the owner of a folder and its content, except symbolic links."""
    if owner is None:
        return
    entry = pwd.getpwnam(owner)
    for found in (path, *path.rglob("*")):
        os.chown(found, entry.pw_uid, entry.pw_gid, follow_symlinks=False)


def start_process(
    command: Sequence[str | Path], *, owner: str | None = None, output: Path, **environment: str
) -> subprocess.Popen[bytes]:
    """Start a child in a new process group, with its output in a file."""
    with output.open("ab") as sink:
        return subprocess.Popen(
            [str(word) for word in command],
            user=owner,
            group=pwd.getpwnam(owner).pw_gid if owner else None,
            extra_groups=[] if owner else None,
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=sink,
            env={**os.environ, **environment},
            start_new_session=True,
        )


def end_process(
    process: subprocess.Popen[bytes], *, request: signal.Signals = signal.SIGTERM, patience_seconds: float = 10
) -> None:
    """Send the signal `request` to the process. If the process has not ended after a timeout, kill it."""
    if process.poll() is None:
        process.send_signal(request)
        try:
            process.wait(patience_seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def wait_until(
    ready: Callable[[], bool],
    what: str,
    *,
    seconds: float,
    process: subprocess.Popen[bytes] | None = None,
    log: Path | None = None,
) -> None:
    """Wait until `ready` returns true.

    Raises BenchError with the end of `log` after the timeout, or if `process` ends.
    """
    deadline = time.monotonic() + seconds
    while not ready():
        ended = process is not None and process.poll() is not None
        if ended or time.monotonic() > deadline:
            why = "ended" if ended else f"was not ready within {seconds:g} s"
            raise BenchError(f"{what} {why}\n{_tail(log)}".rstrip())
        time.sleep(0.02)


def _tail(log: Path | None) -> str:
    if log is None or not log.exists():
        return ""
    return "\n".join(log.read_text(errors="replace").splitlines()[-15:])


# Ports below the ephemeral ports of the kernel (ip(7)).
_LOW_PORTS = range(20_000, 32_000)


def free_ports(count: int) -> list[int]:
    first = first_of_free_ports(count)
    return list(range(first, first + count))


def first_of_free_ports(count: int) -> int:
    """Return the first of `count` consecutive ports that are free for UDP and TCP on the loopback interface."""
    starts = range(_LOW_PORTS.start, _LOW_PORTS.stop - count, count)
    # Random order, so that two processes that search at the same time do not get the same ports.
    for first in random.sample(starts, len(starts)):
        if all(_is_free(kind, port) for port in range(first, first + count) for kind in _KINDS):
            return first
    raise BenchError(f"there are no {count} free ports in a row below {_LOW_PORTS.stop}")


def _is_free(kind: socket.SocketKind, port: int) -> bool:
    with socket.socket(socket.AF_INET, kind) as trial:
        try:
            trial.bind((LOOPBACK, port))
        except OSError:
            return False
    return True


@dataclass(frozen=True, slots=True)
class ProcessTree:
    """A process and all its descendants, except the processes in `without` and their descendants."""

    root: int
    without: tuple[int, ...] = ()


def cpu_seconds(tree: ProcessTree) -> float:
    """Return user and system time of the tree, including children that have ended.

    The source is /proc/<pid>/stat (proc(5)), fields 14 to 17. This file counts in ticks of 10 ms, so a measurement must
    take seconds.
    """
    children: dict[int, list[int]] = {}
    times: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            # The command is in parentheses, and can contain blanks and parentheses.
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        pid = int(entry.name)
        children.setdefault(int(fields[1]), []).append(pid)
        times[pid] = sum(int(field) for field in fields[11:15])
    ticks, unseen, seen = 0, [tree.root], set(tree.without)
    while unseen:
        pid = unseen.pop()
        if pid not in seen:
            seen.add(pid)
            ticks += times.get(pid, 0)
            unseen += children.get(pid, [])
    return ticks / _TICKS_PER_SECOND


def resident_bytes(pid: int) -> int:
    """Return the resident memory (VmRSS) of one process. Shared pages count in full."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise BenchError(f"process {pid} has no memory: it is a kernel thread or has ended")


def run_in_processes(works: Sequence[Callable[[], RunResult]]) -> RunResult:
    """Run the functions at the same time, each in its own process, and add up the results.

    A single function runs in this process. One Python process cannot generate expensive requests, such as TLS
    handshakes, fast enough. Raises BenchError on failure.
    """
    if len(works) == 1:
        return works[0]()
    children = [_spawn(work) for work in works]
    total = RunResult()
    for number, (process, results) in enumerate(children, 1):
        try:
            total.merge(results.recv(), parallel=True)
        except EOFError as error:
            process.join()
            raise BenchError(f"generator process {number} ended with status {process.exitcode}") from error
        process.join()
    return total


def _spawn(work: Callable[[], RunResult]) -> tuple[multiprocessing.process.BaseProcess, Connection]:
    receiver, sender = _FORK.Pipe(duplex=False)
    process = _FORK.Process(target=_deliver, args=(work, sender))
    process.start()
    sender.close()
    return process, receiver


def _deliver(work: Callable[[], RunResult], sender: Connection) -> None:
    sender.send(work())
    sender.close()
