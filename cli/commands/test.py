"""`./admit test`: linters and tests, as in continuous integration."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import click

from cli.devtools.quick_tests import quick_files
from cli.install import ensure_packages
from cli.layout import CHECKOUT, var_dir
from cli.output import Progress
from cli.packages import TEST_PACKAGES

_PYTHON = (sys.executable, "-P", "-m")
# Number of workers: three more than the cores of the smallest machine, because tests often wait for programs. Each
# worker starts its own PostgreSQL and radiusd.
_PROCESSES = "5"
# Distribute whole files, because tests of a file share a radiusd. tests/conftest.py defines the order.
_SIDE_BY_SIDE = ("-n", _PROCESSES, "--dist", "loadfile", "--no-loadscope-reorder", "--durations", "40")
# Use few processes, because each process takes seconds to start. Tests that failed in the last run come first.
_QUICK = ("-m", "not alone and not long", "-n", "2", "--dist", "loadfile", "--no-loadscope-reorder", "--failed-first")
# Folder of fault tests, which need an idle machine.
_ALONE = "tests/whole/faults"
_CHECKS: dict[str, tuple[str, ...]] = {
    "ruff": (*_PYTHON, "ruff", "check", "."),
    "format": (*_PYTHON, "ruff", "format", "--check", "."),
    "mypy": (*_PYTHON, "mypy"),
    # import-linter cannot run as a module, because it has no __main__.
    "layers": (
        sys.executable,
        "-P",
        "-c",
        "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports())",
    ),
    "house": (*_PYTHON, "cli.devtools.lint"),
    "portal": (*_PYTHON, "cli.devtools.portal_check"),
}


@click.command(context_settings={"ignore_unknown_options": True})
@click.option("--faults", is_flag=True, help="Run only the fault tests, including long fault tests.")
@click.option("--long", "with_long", is_flag=True, help="Include tests that take minutes, and all examples.")
@click.option("--quick", is_flag=True, help="Run the linters and the quick tests, which take at most 90 s on 2 cores.")
@click.option("--no-install", is_flag=True, help="Report missing packages without installing them.")
@click.argument("pytest_arguments", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def command(
    ctx: click.Context, faults: bool, with_long: bool, quick: bool, no_install: bool, pytest_arguments: tuple[str, ...]
) -> None:
    """Run the linters and the tests. With --faults or PYTEST_ARGUMENTS, run only the selected tests and no linters.

    --quick also runs test files that have uncommitted changes, and the test files of PYTEST_ARGUMENTS.
    """
    if quick and (faults or with_long):
        raise click.UsageError(
            "--quick cannot be combined with --faults or --long. Remove --quick, or the other options."
        )
    started = time.monotonic()
    ensure_packages(Progress(), install=not no_install, log=var_dir() / "log" / "install.log", packages=TEST_PACKAGES)
    failed = []
    if quick or not (faults or pytest_arguments):
        with _byte_code_made():
            failed = _failed_checks()
    failed += [
        name
        for name, chosen in _runs(faults, with_long, quick, pytest_arguments).items()
        if not _passes(name, (*_PYTHON, "pytest", *chosen))
    ]
    verdict = f"FAILED: {', '.join(failed)}" if failed else "passed"
    click.echo(f"admit test: {verdict} ({time.monotonic() - started:.0f} s)")
    ctx.exit(1 if failed else 0)


def _runs(faults: bool, with_long: bool, quick: bool, arguments: tuple[str, ...]) -> dict[str, list[str]]:
    if quick:
        return {"quick tests": [*_QUICK, *quick_files(), *arguments]}
    if faults:
        return {"faults": ["-m", "faults", *arguments]}
    if arguments:
        return {"tests": [*(() if with_long else ("-m", "not long")), *arguments]}
    chosen = "" if with_long else " and not long"
    return {"tests": ["-m", f"not alone{chosen}", *_SIDE_BY_SIDE], "faults": ["-m", f"alone{chosen}", _ALONE]}


def _failed_checks() -> list[str]:
    """Run all linters in parallel, because the slowest linter uses only one processor.

    Return the names of the linters that fail.
    """

    def run(check: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
        both = subprocess.STDOUT
        return subprocess.run(
            check, cwd=CHECKOUT, env=_environment(), check=False, stdout=subprocess.PIPE, stderr=both, text=True
        )

    failed = []
    with ThreadPoolExecutor(len(_CHECKS)) as threads:
        for name, done in zip(_CHECKS, threads.map(run, _CHECKS.values()), strict=True):
            click.echo(f"--- {name}\n{done.stdout}", nl=False)
            if done.returncode != 0:
                failed.append(name)
    return failed


def _passes(name: str, check: tuple[str, ...]) -> bool:
    click.echo(f"--- {name}")
    return subprocess.run(check, cwd=CHECKOUT, env=_environment(), check=False).returncode == 0


@contextmanager
def _byte_code_made() -> Iterator[None]:
    """Compile the code to byte code in a separate process while the block runs.

    Otherwise each test worker would compile it.

    Files that do not compile fail later, in the tests.
    """
    command = (*_PYTHON, "pytest", "--collect-only", "-qq")
    silent = subprocess.DEVNULL
    with subprocess.Popen(command, cwd=CHECKOUT, env=_environment(), stdout=silent, stderr=silent):
        yield


def _environment() -> dict[str, str]:
    """Environment of tests, without the settings of a running installation.

    The environment omits PYTHONDONTWRITEBYTECODE, so that Python stores byte code. Otherwise pytest would rewrite
    assertions in each worker.
    """
    unwanted = "PYTHONDONTWRITEBYTECODE"
    return {name: value for name, value in os.environ.items() if name != unwanted and not name.startswith("ADMIT_")}
