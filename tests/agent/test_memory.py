"""The memory limit of radiusd and the agent's actions above the limit."""

import os
from dataclasses import dataclass

import pytest

from nac.kit.settings import load_settings
from radius.agent.radiusd import memory
from radius.agent.radiusd.memory import HALF_OPEN_BYTES, MAX_SESSIONS, MIN_SESSIONS

GIGABYTE = 1 << 30


def test_memory_of_a_running_process_is_reported():
    own = memory.get_process_memory(os.getpid())
    assert 0 < own.anonymous_bytes <= own.resident_bytes
    assert 0 < memory.proportional_bytes(os.getpid()) <= 2 * own.resident_bytes
    gone = os.fork()
    if not gone:
        os._exit(0)
    os.waitid(os.P_PID, gone, os.WEXITED | os.WNOWAIT)
    assert memory.get_process_memory(gone) is None
    os.waitpid(gone, 0)
    assert memory.get_process_memory(gone) is None
    assert memory.proportional_bytes(gone) == 0


@dataclass
class Machine:
    """Copies of /proc and /sys/fs/cgroup, as on a machine with 8 GB."""

    proc: os.PathLike
    cgroups: os.PathLike

    def belongs(self, *lines):
        (self.proc / "self" / "cgroup").write_text("".join(f"{line}\n" for line in lines))

    def limit(self, path, text):
        file = self.cgroups / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{text}\n")

    def available(self):
        return memory.available_bytes(self.proc, self.cgroups)


@pytest.fixture
def machine(tmp_path):
    machine = Machine(tmp_path / "proc", tmp_path / "cgroup")
    (machine.proc / "self").mkdir(parents=True)
    machine.cgroups.mkdir()
    (machine.proc / "meminfo").write_text("MemTotal:        8388608 kB\nMemFree:  1 kB\nHugePages_Total:       0\n")
    return machine


def test_machine_without_cgroups_uses_all_memory(machine):
    assert machine.available() == 8 * GIGABYTE


@pytest.mark.parametrize(
    ("line", "file", "text", "expected"),
    [
        ("0::/system.slice/admit.service", "system.slice/admit.service/memory.max", 2 * GIGABYTE, 2 * GIGABYTE),
        ("0::/system.slice/admit.service", "system.slice/memory.max", 3 * GIGABYTE, 3 * GIGABYTE),
        ("0::/system.slice/admit.service", "system.slice/admit.service/memory.max", "max", 8 * GIGABYTE),
        # In a container, the container's cgroup is the root of /sys/fs/cgroup, but /proc shows the path on the host.
        ("0::/", "memory.max", GIGABYTE, GIGABYTE),
        ("0::/../../docker-1", "memory.max", GIGABYTE, GIGABYTE),
        ("4:memory:/docker/1", "memory/memory.limit_in_bytes", GIGABYTE, GIGABYTE),
        ("4:memory:/docker/1", "memory/memory.limit_in_bytes", 2**63 - 4096, 8 * GIGABYTE),
        ("4:cpu:/docker/1", "memory/memory.limit_in_bytes", GIGABYTE, 8 * GIGABYTE),
    ],
)
def test_smaller_cgroup_limit_applies(machine, line, file, text, expected):
    machine.belongs(line)
    machine.limit(file, text)
    assert machine.available() == expected


def test_limit_is_the_setting_or_half_of_the_memory():
    settings = {"ADMIT_VAR_DIR": "/x"}
    assert memory.limit_bytes(load_settings(settings)) == memory.available_bytes() // 2
    assert memory.limit_bytes(load_settings(settings | {"ADMIT_CELL_MEMORY_BYTES": "1000000000"})) == 1_000_000_000


@pytest.mark.parametrize(
    ("limit", "slots", "expected"),
    [(512 * 32 * HALF_OPEN_BYTES, 32, 512), (64 * GIGABYTE, 32, MAX_SESSIONS), (GIGABYTE, 32, MIN_SESSIONS)],
)
def test_handshakes_of_all_slots_fit_the_memory_limit(limit, slots, expected):
    assert memory.max_sessions(limit, slots) == expected
