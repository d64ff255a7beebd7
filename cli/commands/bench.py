"""`./admit bench`: runs `loadtest`."""

import os
import sys
from contextlib import redirect_stdout

import click

from cli.install import ensure_packages
from cli.layout import var_dir
from cli.output import Progress
from cli.packages import BENCH_PACKAGES


@click.command(
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False}, add_help_option=False
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def command(arguments: tuple[str, ...]) -> None:
    """Measure a cell and other RADIUS servers (peers), for example with './admit bench quick'.

    Installs missing packages before the measurement.
    """
    if not {"-h", "--help"} & set(arguments):
        # Messages go to standard error, because standard output has the results, which may be JSON.
        with redirect_stdout(sys.stderr):
            ensure_packages(Progress(), install=True, log=var_dir() / "log" / "install.log", packages=BENCH_PACKAGES)
    sys.stdout.flush()
    os.execv(sys.executable, [sys.executable, "-P", "-m", "loadtest", *arguments])  # noqa: S606 -- no shell is the point
