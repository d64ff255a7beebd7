"""Processes forked from the test process. They do not repeat the imports, which take about a second."""

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
    """Start a program with this `main` in its own session, as `subprocess.Popen` does. Output goes to the log."""

    def work() -> None:
        os.setsid()
        with log.open("a") as output:
            _run(main, environment, output, output)

    return forked(work)


def run_forked(main: Main, environment: Mapping[str, str], *, seconds: float = 60) -> subprocess.CompletedProcess[str]:
    """Run a program with this `main`, as `subprocess.run` does, and return its output."""
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
    sys.stdout, sys.stderr = _redirect(output, 1), _redirect(errors, 2)
    # The setup of pytest must not affect the program.
    logging.getLogger().handlers.clear()
    warnings.simplefilter("ignore")
    sys.exit(main())


def _redirect(file: IO[str], descriptor: int) -> IO[str]:
    """Redirect the descriptor to the file."""
    os.dup2(file.fileno(), descriptor)
    return os.fdopen(descriptor, "w", buffering=1, closefd=False)
