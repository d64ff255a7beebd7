"""Tests with a real supervisord, private to the test."""

import os
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli import procfs, startup, supervisor
from cli.layout import Layout
from cli.passwords import Passwords
from cli.programs import list_programs
from cli.supervisor import Program, Supervisor
from tests.polling import until

SLEEPER = (sys.executable, "-c", "import time; time.sleep(600)")


@pytest.fixture
def layout() -> Iterator[Layout]:
    # Short, because pytest's own temporary folders do not fit into a unix socket's address.
    with tempfile.TemporaryDirectory(prefix="admit-") as name:
        var = Path(name)
        made = Layout(var, var / "run", var / "postgres", None, is_separated=False)
        for folder in (made.run, made.log, made.postgres):
            folder.mkdir()
        yield made
        startup.stop(made)


def start(layout: Layout, *programs: Program) -> Supervisor:
    configuration = layout.var / "supervisord.conf"
    configuration.write_text(supervisor.render_configuration(layout, programs))
    supervisor.start(layout, configuration, {"ADMIT_VAR_DIR": str(layout.var), "ADMIT_CELL_NAME": "cell-9"})
    return Supervisor(layout)


def sleeper(layout: Layout, name: str = "sleeper", **more: bool) -> Program:
    return Program(name, SLEEPER, layout.var, None, priority=10, **more)


def wait_for(running: Supervisor, name: str, state: str) -> supervisor.ProgramState:
    def reached_state() -> supervisor.ProgramState | None:
        is_now = running.states()[name]
        return is_now if is_now.state == state else None

    return until(reached_state, f"{name} {state}")


def test_programs_start_with_their_environment_and_restart(layout: Layout):
    assert Supervisor(layout).states() == {}
    assert not Supervisor(layout).is_up()
    running = start(layout, sleeper(layout, starts_with_supervisor=True), sleeper(layout, "later"))
    state = wait_for(running, "sleeper", "RUNNING")
    assert running.states()["later"].state == "STOPPED"
    environment = Path(f"/proc/{state.pid}/environ").read_bytes().split(b"\0")
    assert b"ADMIT_CELL_NAME=cell-9" in environment
    assert state.started_at > 0
    running.ensure_started("later")
    wait_for(running, "later", "RUNNING")
    os.kill(state.pid, signal.SIGKILL)
    until(lambda: running.states()["sleeper"].pid not in (0, state.pid), "another process")
    assert wait_for(running, "sleeper", "RUNNING").pid != state.pid


def test_stop_ends_supervisor_and_programs(layout: Layout):
    running = start(layout, sleeper(layout, "agent", starts_with_supervisor=True), sleeper(layout, "api"))
    pid = wait_for(running, "agent", "RUNNING").pid
    assert startup.stop(layout) == 0
    assert not procfs.is_running(pid)
    assert startup.find_strays(layout) == []
    assert not running.is_up()


def test_stop_ends_orphans_of_a_killed_supervisor(layout: Layout):
    running = start(layout, sleeper(layout, starts_with_supervisor=True))
    orphan = wait_for(running, "sleeper", "RUNNING").pid
    os.kill(int((layout.run / "supervisord.pid").read_text()), signal.SIGKILL)
    until(lambda: not running.is_up(), "supervisor is gone")
    assert procfs.is_running(orphan)
    assert startup.stop(layout) == 1
    assert not procfs.is_running(orphan)


def test_worker_keeps_a_process_free_for_short_jobs(layout: Layout):
    [worker] = [each for each in list_programs(layout, Passwords(b"seed")) if each.name == "worker"]
    [processes] = [word.partition("=")[2] for word in worker.command if word.startswith("--processes=")]
    assert int(processes) >= 3
