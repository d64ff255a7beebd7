"""`./admit bench`: runs `loadtest`."""

import os
import sys

import click


@click.command(
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False}, add_help_option=False
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def command(arguments: tuple[str, ...]) -> None:
    """Measure a cell and its peers, such as './admit bench quick'."""
    sys.stdout.flush()
    os.execv(sys.executable, [sys.executable, "-P", "-m", "loadtest", *arguments])  # noqa: S606 -- no shell is the point
