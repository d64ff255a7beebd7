"""Progress lines with durations."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import click


class Progress:
    """Prints one line for each finished step: seconds since the start, subject and result."""

    def __init__(self) -> None:
        self._started = time.monotonic()

    def done(self, subject: str, what: str) -> None:
        click.echo(f"{time.monotonic() - self._started:6.1f} s  {subject:<11} {what}")

    def note(self, what: str) -> None:
        click.echo(f"{'':10}{what}")

    @contextmanager
    def step(self, subject: str, what: str) -> Iterator[None]:
        """Announce a step before it ends; on a terminal, the line with the time replaces it."""
        terminal = sys.stdout.isatty()
        if terminal:
            click.echo(f"{'...':>8}  {subject:<11} {what}", nl=False)
        try:
            yield
        except BaseException:
            if terminal:
                click.echo()
            raise
        if terminal:
            click.echo("\r\033[K", nl=False)
        self.done(subject, what)
