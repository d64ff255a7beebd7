"""What was refused with many mistakes at once, shown as a list."""

import json
from collections.abc import Iterator
from contextlib import contextmanager

import click


@contextmanager
def mistakes_listed(error: type[Exception], what: str, *, as_json: bool) -> Iterator[None]:
    """For an `error` with `mistakes`, which are named tuples and texts at once.

    Every mistake on a line of its own; with --json as a list on standard output. Exit status 1 either way."""
    try:
        yield
    except error as exc:
        mistakes = exc.mistakes  # type: ignore[attr-defined]
        if as_json:
            click.echo(json.dumps({"valid": False, "mistakes": [each._asdict() for each in mistakes]}, indent=2))
        else:
            click.echo(f"The {what} has {len(mistakes)} mistake{'s' if len(mistakes) > 1 else ''}:", err=True)
            for mistake in mistakes:
                click.echo(f"  {mistake}", err=True)
        raise click.exceptions.Exit(1) from exc
