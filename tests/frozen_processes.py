"""Frozen processes: clients connected to them hang instead of failing."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from cli import procfs


@contextmanager
def frozen(root: int) -> Iterator[None]:
    """Freeze the process and its children (SIGSTOP) until the block ends."""
    stopped: list[int] = []
    try:
        # The parent is frozen first, so that it starts no other child.
        _stop(root, stopped)
        for process in procfs.list_processes():
            if process.parent == root:
                _stop(process.pid, stopped)
        yield
    finally:
        for pid in stopped:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


def _stop(pid: int, stopped: list[int]) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGSTOP)
        stopped.append(pid)
