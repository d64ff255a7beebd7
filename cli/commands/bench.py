"""`./admit bench`: hands over to `loadtest`, with the settings of what runs here."""

import os
import sys

import click

from cli import environment
from cli.layout import NothingRuns, require_layout
from cli.supervisor import Supervisor


@click.command(
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False}, add_help_option=False
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def command(arguments: tuple[str, ...]) -> None:
    """Measure the running cell against its peers: './admit bench quick'."""
    # The other measurements bring what they measure.
    if "quick" in arguments and not {"-h", "--help"} & set(arguments):
        environment.load_into_process()
        if not Supervisor(require_layout()).is_up():
            raise NothingRuns
    sys.stdout.flush()
    os.execv(sys.executable, [sys.executable, "-P", "-m", "loadtest", *arguments])  # noqa: S606 -- no shell is the point
