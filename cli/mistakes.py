"""Lists of mistakes in a document, each with its place."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import click

from cli.fail import BAD_INPUT
from cli.output import printable, show_json
from nac.endpoints.file_import import InvalidFile
from nac.engine import DocumentErrors, DocumentMistake
from nac.policies.json_rows import mistake_rows
from nac.policies.service import InvalidPolicy


@contextmanager
def mistakes_listed(*, as_json: bool) -> Iterator[None]:
    """Print each mistake of a policy on its own line; with --json, a list on standard output."""
    try:
        yield
    except (InvalidPolicy, DocumentErrors) as exc:
        list_mistakes(exc.mistakes, as_json=as_json)
        raise click.exceptions.Exit(BAD_INPUT) from exc


def list_mistakes(mistakes: Iterable[DocumentMistake], *, as_json: bool, what: str = "The policy") -> None:
    found = list(mistakes)
    if as_json:
        show_json({"valid": False, "mistakes": mistake_rows(found)})
        return
    click.echo(f"{what} has {len(found)} mistake{'s' if len(found) > 1 else ''}:", err=True)
    for mistake in found:
        click.echo(f"  {printable(str(mistake))}", err=True)


@contextmanager
def lines_listed(*, as_json: bool) -> Iterator[None]:
    """Like `mistakes_listed` for a file of endpoints; all mistakes with --json, otherwise the first MAX_SHOWN."""
    try:
        yield
    except InvalidFile as exc:
        if as_json:
            list_mistakes(exc.mistakes, as_json=True)
            raise click.exceptions.Exit(BAD_INPUT) from exc
        raise


@contextmanager
def rows_listed(error: type[Exception], *, as_json: bool) -> Iterator[None]:
    """Like `mistakes_listed` for an `error` about rows of a file, with `mistakes` as named tuples."""
    try:
        yield
    except error as exc:
        mistakes = exc.mistakes  # type: ignore[attr-defined]
        if as_json:
            show_json({"valid": False, "mistakes": [each._asdict() for each in mistakes]})
        else:
            click.echo(f"The file has {len(mistakes)} mistake{'s' if len(mistakes) > 1 else ''}:", err=True)
            for mistake in mistakes:
                click.echo(f"  {printable(str(mistake))}", err=True)
        raise click.exceptions.Exit(BAD_INPUT) from exc
