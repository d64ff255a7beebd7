"""Processes forked from the test process: imports, which take about a second, are already done."""

import logging
import os
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Mapping
from multiprocessing import get_context
from multiprocessing.context import ForkProcess
from pathlib import Path
from typing import IO

_context = get_context("fork")
Main = Callable[[], int]


def forked(work: Callable[[], object]) -> ForkProcess:
    process = _context.Process(target=work, daemon=True)
    process.start()
    return process


def start_forked(main: Main, environment: Mapping[str, str], log: Path) -> ForkProcess:
    """Start like `subprocess.Popen`, for a program with this `main`, in its own session. Output goes to the log."""

    def work() -> None:
        os.setsid()
        with log.open("a") as output:
            _run(main, environment, output, output)

    return forked(work)


def run_forked(main: Main, environment: Mapping[str, str], *, seconds: float = 60) -> subprocess.CompletedProcess[str]:
    """Run like `subprocess.run`, for such a program, with its output."""
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
        process = forked(lambda: _run(main, environment, output, errors))
        process.join(seconds)
        assert process.exitcode is not None, "it does not end"
        output.seek(0)
        errors.seek(0)
        return subprocess.CompletedProcess([], process.exitcode, output.read(), errors.read())


def _run(main: Main, environment: Mapping[str, str], output: IO[str], errors: IO[str]) -> None:
    os.environ.clear()
    os.environ.update(environment)
    sys.stdout, sys.stderr = _takes(output, 1), _takes(errors, 2)
    # pytest's setup must not affect the program.
    logging.getLogger().handlers.clear()
    warnings.simplefilter("ignore")
    sys.exit(main())


def _takes(file: IO[str], descriptor: int) -> IO[str]:
    """Redirect the descriptor to the file."""
    os.dup2(file.fileno(), descriptor)
    return os.fdopen(descriptor, "w", buffering=1, closefd=False)
