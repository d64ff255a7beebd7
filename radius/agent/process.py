"""radiusd as a process: apart from the agent, so that it serves on while the agent is away, and adopted again."""

import json
import os
import select
import signal
import subprocess
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from radius.agent.files import write_small

RADIUSD = "/usr/sbin/freeradius"
JEMALLOC = "/usr/lib/x86_64-linux-gnu/libjemalloc.so.2"
# Freed memory goes back after 30 s, not 10: a conversation's is needed again within its own time, and each page that
# was given back costs a fault.
MALLOC = "dirty_decay_ms:30000,muzzy_decay_ms:0"
STOP_SECONDS = 10.0


class RadiusdError(Exception):
    """radiusd cannot be started; the message says why in radiusd's own words."""


@dataclass(frozen=True)
class Running:
    """A radiusd that is alive: its process id and when the kernel started it, so that a re-used id is no match."""

    pid: int
    start_ticks: int
    config_directory: Path


def start(config_directory: Path, log: Path) -> Running:
    """Start radiusd on a rendered configuration; its output is appended to `log`."""
    with open(log, "ab") as output:
        child = subprocess.Popen(
            [RADIUSD, "-f", "-d", str(config_directory), "-n", "radiusd", "-l", "stdout"],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=environment(config_directory),
            group=group_of_children(),
            start_new_session=True,
        )
    _schedule(child.pid)
    # Reaped through the pidfd in `alive` and `stop`; Popen's own bookkeeping would warn when it is dropped.
    child.returncode = 0
    return Running(child.pid, start_ticks(child.pid), config_directory)


def environment(config_directory: Path) -> dict[str, str]:
    """What radiusd needs and no more, and the marks by which `./admit down` knows a process of ours."""
    kept = bare_environment()
    kept["ADMIT_MODULE_SETTINGS"] = str(config_directory / "module.json")
    # Source trees may belong to another user; radiusd writes no byte code.
    kept["PYTHONDONTWRITEBYTECODE"] = "1"
    if os.path.exists(JEMALLOC):
        kept["LD_PRELOAD"] = JEMALLOC
        kept["MALLOC_CONF"] = MALLOC
    kept["OPENSSL_CONF"] = str(config_directory / "openssl.cnf")
    return kept


def bare_environment() -> dict[str, str]:
    """Of ours, what a process needs that is to hold none of our secrets."""
    marks = ("ADMIT_VAR_DIR", "SUPERVISOR_PROCESS_NAME")
    return {name: os.environ[name] for name in ("PATH", "LANG", "TZ", *marks) if name in os.environ}


def group_of_children() -> int:
    """For `subprocess`. The agent may hold the master key's group as its effective one: with this as their real,
    effective and saved group, children have given that up for good (setregid(2)).
    """
    return os.getgid()


def _schedule(pid: int) -> None:
    """As a batch process, before it has threads: those that wake do not push aside the one at work, so several packets
    are read in one go. 15 % less CPU time for a MAB under load, nothing while a core is idle (sched(7)).
    """
    # Where a container forbids it, radiusd runs as any process does.
    with suppress(OSError):
        os.sched_setscheduler(pid, os.SCHED_BATCH, os.sched_param(0))


def check(config_directory: Path) -> None:
    """`radiusd -C`: raises RadiusdError with what it says where the configuration does not load."""
    done = subprocess.run(
        [RADIUSD, "-C", "-d", str(config_directory), "-n", "radiusd", "-l", "stdout"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        env=environment(config_directory),
        group=group_of_children(),
        timeout=60,
        check=False,
    )
    if done.returncode != 0:
        raise RadiusdError(_errors(done.stdout + done.stderr))


def _errors(output: str) -> str:
    lines = [line for line in output.splitlines() if "Error" in line] or output.splitlines()[-5:]
    return "radiusd refuses its configuration: " + " | ".join(lines[-6:])


def version() -> str:
    """ "3.2.7" of the installed radiusd. Raises RadiusdError where there is none."""
    try:
        done = subprocess.run([RADIUSD, "-v"], capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError) as exc:
        raise RadiusdError(f"{RADIUSD} does not run: {exc}; install freeradius 3.2.7") from exc
    for word in done.stdout.split():
        if word[:1].isdigit() and word.count(".") >= 2:
            return word.rstrip(",").split("+")[0]
    raise RadiusdError(f"{RADIUSD} -v names no version")


def start_ticks(pid: int) -> int:
    """Clock ticks after boot at which `pid` began (proc(5) field 22), -1 where there is no such process.

    One whose first thread has ended before the others is a zombie too, but holds its sockets still.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return -1
    fields = stat.rpartition(")")[2].split()
    return -1 if fields[0] == "Z" and _has_ended(pid) else int(fields[19])


def _has_ended(pid: int) -> bool:
    """Whether every thread of it has (pidfd_open(2))."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([descriptor], [], [], 0)[0])
    finally:
        os.close(descriptor)


def alive(running: Running) -> bool:
    _reap(running.pid)
    return start_ticks(running.pid) == running.start_ticks


def stop(running: Running, seconds: float = STOP_SECONDS) -> None:
    """TERM, and KILL after `seconds`; returns when it is gone."""
    try:
        descriptor = os.pidfd_open(running.pid)
    except ProcessLookupError:
        return
    try:
        for number in (signal.SIGTERM, signal.SIGKILL):
            if not alive(running):
                return
            signal.pidfd_send_signal(descriptor, number)
            select.select([descriptor], [], [], seconds)
        _reap(running.pid)
    except ProcessLookupError:
        return
    finally:
        os.close(descriptor)


def _reap(pid: int) -> None:
    """Collect it where it is our child; an adopted one is collected by init."""
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return


def remember(path: Path, running: Running) -> None:
    """For the next agent: which radiusd is ours."""
    text = json.dumps(
        {"pid": running.pid, "start_ticks": running.start_ticks, "config_directory": str(running.config_directory)}
    )
    write_small(path, text.encode())


def adopt(path: Path) -> Running | None:
    """The radiusd that an earlier agent started, where it still runs."""
    try:
        told = json.loads(path.read_text())
        running = Running(int(told["pid"]), int(told["start_ticks"]), Path(told["config_directory"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return running if start_ticks(running.pid) == running.start_ticks else None
