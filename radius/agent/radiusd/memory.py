"""Memory of radiusd: its use, its limit, and how many unfinished EAP conversations fit into the limit."""

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from nac.kit.settings import Settings

# Bytes of an EAP-TLS conversation whose device stopped responding after the server certificate. Measured by
# tests/radius/test_half_open.py. radiusd keeps such a conversation for 30 s (radius/raddb/templates/eap).
HALF_OPEN_BYTES = 330_000
# Bounds of the limit of one tenant's conversations. With a higher limit, memory could run out. With a lower limit, the
# tenant's devices would wait in a busy hour.
MAX_SESSIONS = 1024
MIN_SESSIONS = 256
# Share of the limit at which the alarm is raised. At the limit, radiusd restarts.
ALARM_SHARE = 0.7

_CGROUP_ROOT = Path("/sys/fs/cgroup")
_PROC = Path("/proc")
_libc = ctypes.CDLL(None)


@dataclass(frozen=True, slots=True)
class ProcessMemory:
    """Memory of a process.

    `anonymous_bytes` belong only to this process. The kernel can drop all other parts of `resident_bytes`.
    """

    resident_bytes: int
    anonymous_bytes: int


def get_process_memory(pid: int) -> ProcessMemory | None:
    """Read the memory use of a process; None if the process does not exist."""
    try:
        fields = _read_kilobytes(_PROC / str(pid) / "status")
    except OSError:
        return None
    # The kernel reports no memory for a zombie.
    if "VmRSS" not in fields:
        return None
    return ProcessMemory(fields["VmRSS"] << 10, fields["RssAnon"] << 10)


def proportional_bytes(pid: int) -> int:
    """Proportional set size (PSS) in bytes: each shared page is divided among its processes.

    Returns 0 if the value is unavailable.

    Do not call this function each second: the kernel reads all pages of the process.
    """
    try:
        with _as_real_group():
            return _read_kilobytes(_PROC / str(pid) / "smaps_rollup").get("Pss", 0) << 10
    except OSError:
        return 0


@contextmanager
def _as_real_group() -> Iterator[None]:
    """Set this thread's group to the agent's real group while the `with` block runs.

    The kernel shows a process's memory only to processes of the same user and group. radiusd runs with the agent's real
    group (`radius.agent.radiusd.process.child_group_id`; ptrace(2), setfsgid(2)).
    """
    _libc.setfsgid(os.getgid())
    try:
        yield
    finally:
        _libc.setfsgid(os.getegid())


def limit_bytes(settings: Settings) -> int:
    """Memory limit of radiusd: the setting, by default half of the memory of the machine or container."""
    return settings.cell_memory_bytes or available_bytes() // 2


def available_bytes(proc: Path = _PROC, cgroups: Path = _CGROUP_ROOT) -> int:
    """Memory of the machine or, if less, of the control groups of this process (v2 and v1)."""
    limits = [_read_kilobytes(proc / "meminfo")["MemTotal"] << 10]
    for line in _read_lines(proc / "self" / "cgroup"):
        _, controllers, path = line.split(":", 2)
        if not controllers:
            limits += _cgroup_limits(cgroups, path, "memory.max")
        elif "memory" in controllers.split(","):
            limits += _cgroup_limits(cgroups / "memory", path, "memory.limit_in_bytes")
    return min(limits)


def max_sessions(limit: int, slots: int) -> int:
    """Return how many conversations a tenant may have, so that those of all tenants fit into `limit` bytes."""
    return max(MIN_SESSIONS, min(MAX_SESSIONS, limit // (slots * HALF_OPEN_BYTES)))


def _cgroup_limits(root: Path, path: str, name: str) -> list[int]:
    """Limits of the control group and its parents. In a container, the path may name a group that is not visible."""
    group = root / path.lstrip("/")
    around = [group, *group.parents]
    texts = [line for each in around if each.is_relative_to(root) for line in _read_lines(each / name)]
    return [int(text) for text in texts if text.isdecimal()]


def _read_kilobytes(path: Path) -> dict[str, int]:
    """Values of lines such as "VmRSS:     123 kB"."""
    sizes = {}
    for line in path.read_text().splitlines():
        words = line.split()
        if len(words) == 3 and words[2] == "kB":
            sizes[words[0].rstrip(":")] = int(words[1])
    return sizes


def _read_lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except OSError:
        return []
