"""Lists of mistakes in a document, each with its place."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import click

from cli.errors import EXIT_INVALID_INPUT
from cli.operation_commands import render_advice
from cli.output import escape_unprintable, show_json
from nac.engine import DocumentErrors, DocumentMistake
from nac.policies.json_rows import mistake_rows
from nac.policies.service import InvalidPolicy


@contextmanager
def report_policy_mistakes(*, as_json: bool) -> Iterator[None]:
    """Print each mistake of a policy on its own line; with --json, a list on standard output."""
    try:
        yield
    except (InvalidPolicy, DocumentErrors) as exc:
        print_mistakes(exc.mistakes, as_json=as_json)
        raise click.exceptions.Exit(EXIT_INVALID_INPUT) from exc


def print_mistakes(mistakes: Iterable[DocumentMistake], *, as_json: bool, what: str = "The policy") -> None:
    rendered = [DocumentMistake(each.place, render_advice(each.message)) for each in mistakes]
    if as_json:
        show_json({"valid": False, "mistakes": mistake_rows(rendered)})
        return
    click.echo(f"{what} has {len(rendered)} mistake{'s' if len(rendered) > 1 else ''}:", err=True)
    for mistake in rendered:
        click.echo(f"  {escape_unprintable(str(mistake))}", err=True)


@contextmanager
def report_row_mistakes(error: type[Exception], *, as_json: bool) -> Iterator[None]:
    """Like `mistakes_listed` for an `error` about rows of a file, with `mistakes` as named tuples."""
    try:
        yield
    except error as exc:
        row_mistakes = exc.mistakes  # type: ignore[attr-defined]
        mistakes = [each._replace(message=render_advice(each.message)) for each in row_mistakes]
        if as_json:
            show_json({"valid": False, "mistakes": [each._asdict() for each in mistakes]})
        else:
            click.echo(f"The file has {len(mistakes)} mistake{'s' if len(mistakes) > 1 else ''}:", err=True)
            for mistake in mistakes:
                click.echo(f"  {escape_unprintable(str(mistake))}", err=True)
        raise click.exceptions.Exit(EXIT_INVALID_INPUT) from exc
