import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli import procfs
from nac.kit.clock import epoch_seconds

SLEEP = "import time; print('up', flush=True); time.sleep(60)"
STUBBORN = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN);" + SLEEP


class Nursery:
    def __init__(self) -> None:
        self.children: list[subprocess.Popen[str]] = []

    def start(self, code: str = SLEEP, **environment: str) -> int:
        child = subprocess.Popen(
            [sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, text=True, start_new_session=True
        )
        self.children.append(child)
        assert child.stdout is not None
        assert child.stdout.readline() == "up\n"
        return child.pid


@pytest.fixture
def nursery() -> Iterator[Nursery]:
    nursery = Nursery()
    yield nursery
    for child in nursery.children:
        child.kill()
        child.wait()
        assert child.stdout is not None
        child.stdout.close()


def test_process_marked_for_this_var_is_a_stray(nursery: Nursery, tmp_path: Path):
    ours = nursery.start(ADMIT_VAR_DIR=str(tmp_path), SUPERVISOR_PROCESS_NAME="api")
    other_checkout = nursery.start(ADMIT_VAR_DIR=f"{tmp_path}/other", SUPERVISOR_PROCESS_NAME="api")
    exported_by_a_person = nursery.start(ADMIT_VAR_DIR=str(tmp_path))
    found = {process.pid for process in procfs.find_strays(tmp_path, [tmp_path])}
    assert ours in found
    assert other_checkout not in found
    assert exported_by_a_person not in found


def test_caller_is_never_a_stray(tmp_path: Path):
    # A child with both marks looks for strays. It must not find itself.
    code = f"from pathlib import Path; from cli import procfs; print(procfs.find_strays(Path({str(tmp_path)!r}), []))"
    environment = {"ADMIT_VAR_DIR": str(tmp_path), "SUPERVISOR_PROCESS_NAME": "x"}
    said = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert said.stdout == "[]\n"


def test_server_without_environment_is_matched_by_folder(tmp_path: Path):
    # PostgreSQL's children and radiusd overwrite the memory that /proc shows as their environment.
    program = tmp_path / "redis-server"
    shutil.copy("/bin/sleep", program)
    with subprocess.Popen([program, "60"], cwd=tmp_path, env={}) as server:
        with subprocess.Popen(["/bin/sleep", "60"], cwd=tmp_path, env={}) as person_s_program:
            found = {process.pid for process in procfs.find_strays(tmp_path, [tmp_path])}
            assert procfs.find_strays(tmp_path, [tmp_path / "elsewhere"]) == []
            person_s_program.kill()
        server.kill()
    assert found == {server.pid}


def test_end_kills_a_process_that_ignores_sigterm(nursery: Nursery, tmp_path: Path):
    pid = nursery.start(STUBBORN, ADMIT_VAR_DIR=str(tmp_path), SUPERVISOR_PROCESS_NAME="x")
    started = time.monotonic()
    procfs.end_processes(procfs.find_strays(tmp_path, []), patience_seconds=0.3)
    assert not procfs.is_running(pid)
    assert 0.3 <= time.monotonic() - started < 5
    # The end of an exited process is no error.
    procfs.end_processes([procfs.Process(pid, os.getpid(), "python")], patience_seconds=0)


def test_memory_counts_descendants(nursery: Nursery):
    code = "import subprocess, sys; subprocess.run([sys.executable, '-c', sys.argv[1]])"
    with subprocess.Popen([sys.executable, "-c", code, SLEEP], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        parent.stdout.readline()
        (child,) = [process.pid for process in procfs.list_processes() if process.parent == parent.pid]
        both = procfs.memory_kilobytes(parent.pid)
        assert both > procfs.memory_kilobytes(child) > 1000
        procfs.end_processes([procfs.Process(child, parent.pid, "python")])


def test_start_time_is_known_only_for_existing_processes():
    with subprocess.Popen(["/bin/sleep", "60"]) as child:
        assert abs(procfs.started_at(child.pid) - epoch_seconds()) < 5
        child.kill()
    assert procfs.started_at(child.pid) == 0
