"""Mistakes in a document that a person wrote: all of them, each with its place."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import click

from nac.engine import DocumentErrors, Mistake
from nac.policies.service import InvalidPolicy


@contextmanager
def mistakes_listed(*, as_json: bool) -> Iterator[None]:
    """Every mistake on a line of its own; with --json as a list on standard output. Exit status 1 either way."""
    try:
        yield
    except (InvalidPolicy, DocumentErrors) as exc:
        _list(exc.mistakes, as_json=as_json)
        raise click.exceptions.Exit(1) from exc


def mistake_rows(mistakes: Sequence[Mistake]) -> list[dict[str, str]]:
    return [{"place": mistake.place, "message": mistake.message} for mistake in mistakes]


def _list(mistakes: Sequence[Mistake], *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps({"valid": False, "mistakes": mistake_rows(mistakes)}, indent=2))
        return
    click.echo(f"The policy has {len(mistakes)} mistake{'s' if len(mistakes) > 1 else ''}:", err=True)
    for mistake in mistakes:
        click.echo(f"  {mistake}", err=True)
