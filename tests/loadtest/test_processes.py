import os
import subprocess
import sys

import pytest

from loadtest import processes
from loadtest.processes import BenchError, run_in_processes
from loadtest.tally import RunResult

_BURN = "import time\nwhile time.process_time() < 0.2: pass"


def test_cpu_time_of_ended_descendants_is_counted():
    before = processes.cpu_seconds(processes.ProcessTree(os.getpid()))
    grandchild = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {_BURN!r}], check=True)"
    subprocess.run([sys.executable, "-c", grandchild], check=True)
    assert processes.cpu_seconds(processes.ProcessTree(os.getpid())) - before >= 0.15


def test_cpu_time_of_excluded_descendants_is_left_out():
    burner = subprocess.Popen([sys.executable, "-c", f"{_BURN}\ninput()"], stdin=subprocess.PIPE, text=True)
    try:
        processes.wait_until(
            lambda: processes.cpu_seconds(processes.ProcessTree(burner.pid)) >= 0.15, "the child", seconds=30
        )
        whole = processes.cpu_seconds(processes.ProcessTree(os.getpid()))
        rest = processes.cpu_seconds(processes.ProcessTree(os.getpid(), without=(burner.pid,)))
    finally:
        burner.communicate("\n")
    assert whole - rest >= 0.1


def test_process_that_exits_early_is_named_with_its_last_output(tmp_path):
    log = tmp_path / "log"
    process = processes.start_process([sys.executable, "-c", "raise SystemExit('no such port')"], output=log)
    with pytest.raises(BenchError, match=r"the server ended\nno such port"):
        processes.wait_until(lambda: False, "the server", seconds=10, process=process, log=log)


def test_process_that_ignores_sigterm_is_killed(tmp_path):
    code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(1, flush=True); time.sleep(60)"
    process = processes.start_process([sys.executable, "-c", code], output=tmp_path / "log")
    processes.wait_until(lambda: bool((tmp_path / "log").read_text()), "the child", seconds=10)
    processes.end_process(process, patience_seconds=0.1)
    assert process.returncode == -9


def _run(rights: int) -> RunResult:
    run = RunResult(seconds=1.0)
    run.tally("mab").right = rights
    return run


def test_parallel_workloads_are_summed_or_reported_dead():
    total = run_in_processes([lambda: _run(3), lambda: _run(4)])
    assert (total.right, total.seconds) == (7, 1.0)
    with pytest.raises(BenchError, match="generator process 2 ended with status 3"):
        run_in_processes([lambda: _run(3), lambda: os._exit(3)])
