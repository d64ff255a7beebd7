"""The process of radiusd.

radiusd runs separately from the agent. If the agent ends, radiusd continues to serve, and the next agent takes over
radiusd.
"""

import json
import os
import select
import signal
import subprocess
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from radius.agent.small_files import write_small_file

RADIUSD_PROGRAM = "/usr/sbin/freeradius"
JEMALLOC_LIBRARY = "/usr/lib/x86_64-linux-gnu/libjemalloc.so.2"
# Return freed memory to the kernel after 30 s instead of 10 s. In this time, new conversations reuse the memory, which
# saves page faults.
MALLOC_CONFIGURATION = "dirty_decay_ms:30000,muzzy_decay_ms:0"
STOP_SECONDS = 10.0


class RadiusdError(Exception):
    """Failure to start radiusd. The message contains radiusd's own error."""


@dataclass(frozen=True)
class RunningRadiusd:
    """A running radiusd, identified by its process id and start time.

    The start time distinguishes radiusd from a later process with the same id.
    """

    pid: int
    start_ticks: int
    config_directory: Path


def start(config_directory: Path, log: Path) -> RunningRadiusd:
    """Start radiusd with a rendered configuration. Appends the output of radiusd to `log`."""
    with open(log, "ab") as output:
        child = subprocess.Popen(
            [RADIUSD_PROGRAM, "-f", "-d", str(config_directory), "-n", "radiusd", "-l", "stdout"],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=radiusd_environment(config_directory),
            group=child_group_id(),
            start_new_session=True,
        )
    _schedule(child.pid)
    # `is_alive` and `stop` reap the process. Without an exit status, Popen would warn when this object is deleted.
    child.returncode = 0
    return RunningRadiusd(child.pid, start_ticks(child.pid), config_directory)


def radiusd_environment(config_directory: Path) -> dict[str, str]:
    """Environment of radiusd: the necessary variables, and variables by which `admit down` finds the processes of
    radiusd.
    """
    kept = minimal_environment()
    kept["ADMIT_MODULE_SETTINGS"] = str(config_directory / "module.json")
    # radiusd writes no byte code, because the source tree may belong to another user.
    kept["PYTHONDONTWRITEBYTECODE"] = "1"
    if os.path.exists(JEMALLOC_LIBRARY):
        kept["LD_PRELOAD"] = JEMALLOC_LIBRARY
        kept["MALLOC_CONF"] = MALLOC_CONFIGURATION
    kept["OPENSSL_CONF"] = str(config_directory / "openssl.cnf")
    return kept


def minimal_environment() -> dict[str, str]:
    """Environment of this process without secrets, for a child process."""
    marks = ("ADMIT_VAR_DIR", "SUPERVISOR_PROCESS_NAME")
    return {name: os.environ[name] for name in ("PATH", "LANG", "TZ", *marks) if name in os.environ}


def child_group_id() -> int:
    """Group of child processes. The agent may have the master key's group as its effective group.

    A child has the agent's real group as real, effective and saved group. So the child can never get the master key's
    group (setregid(2)).
    """
    return os.getgid()


def _schedule(pid: int) -> None:
    """Give radiusd the batch scheduling policy before radiusd has threads (sched(7)).

    With this policy, a thread that wakes up does not interrupt the running thread. So the running thread can read
    several packets without a break. The policy saves 15 % of the CPU time of a MAB request under load. The policy has
    no effect on an idle core.
    """
    # A container may forbid the change; radiusd then runs with the normal scheduling policy.
    with suppress(OSError):
        os.sched_setscheduler(pid, os.SCHED_BATCH, os.sched_param(0))


def check_configuration(config_directory: Path) -> None:
    """Run `radiusd -C`. Raises RadiusdError with radiusd's output if the configuration does not load."""
    done = subprocess.run(
        [RADIUSD_PROGRAM, "-C", "-d", str(config_directory), "-n", "radiusd", "-l", "stdout"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        env=radiusd_environment(config_directory),
        group=child_group_id(),
        timeout=60,
        check=False,
    )
    if done.returncode != 0:
        raise RadiusdError(_error_summary(done.stdout + done.stderr))


def _error_summary(output: str) -> str:
    lines = [line for line in output.splitlines() if "Error" in line] or output.splitlines()[-5:]
    return "radiusd rejects its configuration: " + " | ".join(lines[-6:])


def installed_version() -> str:
    """Version of the installed radiusd, such as "3.2.7". Raises RadiusdError if radiusd is not installed."""
    try:
        done = subprocess.run([RADIUSD_PROGRAM, "-v"], capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError) as exc:
        raise RadiusdError(f"Cannot run {RADIUSD_PROGRAM}: {exc}. Install freeradius 3.2.7.") from exc
    for word in done.stdout.split():
        if word[:1].isdigit() and word.count(".") >= 2:
            return word.rstrip(",").split("+")[0]
    raise RadiusdError(f"{RADIUSD_PROGRAM} -v prints no version.")


def start_ticks(pid: int) -> int:
    """Start time of process `pid` in clock ticks after boot (proc(5) field 22); -1 if the process does not exist.

    If only the first thread of a process has ended, the process counts as running: other threads still hold the
    sockets.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return -1
    fields = stat.rpartition(")")[2].split()
    return -1 if fields[0] == "Z" and _has_ended(pid) else int(fields[19])


def _has_ended(pid: int) -> bool:
    """Whether all threads of the process have ended (pidfd_open(2))."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([descriptor], [], [], 0)[0])
    finally:
        os.close(descriptor)


def is_alive(running: RunningRadiusd) -> bool:
    _reap(running.pid)
    return start_ticks(running.pid) == running.start_ticks


def stop(running: RunningRadiusd, seconds: float = STOP_SECONDS) -> None:
    """Send SIGTERM, and SIGKILL after `seconds`. Returns when the process has ended."""
    try:
        descriptor = os.pidfd_open(running.pid)
    except ProcessLookupError:
        return
    try:
        for number in (signal.SIGTERM, signal.SIGKILL):
            if not is_alive(running):
                return
            signal.pidfd_send_signal(descriptor, number)
            select.select([descriptor], [], [], seconds)
        _reap(running.pid)
    except ProcessLookupError:
        return
    finally:
        os.close(descriptor)


def _reap(pid: int) -> None:
    """Reap the process if it is a child of this agent. If an earlier agent started radiusd, init reaps the process."""
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return


def save_running(path: Path, running: RunningRadiusd) -> None:
    """Store process id and start time of the cell's radiusd for the next agent."""
    text = json.dumps(
        {"pid": running.pid, "start_ticks": running.start_ticks, "config_directory": str(running.config_directory)}
    )
    write_small_file(path, text.encode())


def load_running(path: Path) -> RunningRadiusd | None:
    """The radiusd that an earlier agent started; None if that radiusd does not run any more."""
    try:
        stored = json.loads(path.read_text())
        running = RunningRadiusd(int(stored["pid"]), int(stored["start_ticks"]), Path(stored["config_directory"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return running if start_ticks(running.pid) == running.start_ticks else None
