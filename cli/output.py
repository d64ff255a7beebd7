"""Output of commands: tables and progress lines for people, JSON with --json."""

import json
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, date, datetime

import click

Row = Mapping[str, object]

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
tenant_option = click.option("--tenant", "-t", "tenant", required=True, metavar="SLUG", help="Slug of the tenant.")


def show_list(rows: Sequence[Row], *, as_json: bool) -> None:
    """Print one line for each row, with keys as columns."""
    if as_json:
        show_json(rows)
        return
    if not rows:
        click.echo("none")
        return
    table = [list(rows[0])] + [[format_value(value) for value in row.values()] for row in rows]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for line in table:
        click.echo("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


def show_one(row: Row, *, as_json: bool) -> None:
    if as_json:
        show_json(row)
        return
    width = max(map(len, row))
    for name, value in row.items():
        click.echo(f"{name:<{width}}  {format_value(value)}")


def format_value(value: object) -> str:
    """Return the text of a value for people, in one line."""
    match value:
        case None | "":
            return "-"
        case bool():
            return "yes" if value else "no"
        case dict():
            return escape_unprintable(_as_json(value))
        case list() | tuple():
            return (
                escape_unprintable(", ".join(_as_json(each) if isinstance(each, dict) else str(each) for each in value))
                or "-"
            )
        case _:
            return escape_unprintable(str(value))


def _as_json(value: Mapping[str, object]) -> str:
    return json.dumps(value, ensure_ascii=False, default=_plain)


def escape_unprintable(text: str) -> str:
    """Return the text without control characters.

    Devices choose parts of the text, and could otherwise control the terminal.
    """
    return text if text.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def show_json(row: object) -> None:
    click.echo(json.dumps(row, indent=2, default=_plain))


def _plain(value: object) -> str:
    """Convert values that have no JSON type. Times have the format of the API."""
    match value:
        case datetime():
            return format_timestamp(value)
        case date():
            return value.isoformat()
        case _:
            return str(value)


def format_timestamp(moment: datetime) -> str:
    """Return a time in UTC (RFC 3339). A time without offset is in UTC."""
    utc = moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    return utc.isoformat().replace("+00:00", "Z")


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
        """Print the line of a step before the step ends.

        On a terminal, the line of the finished step replaces this line.
        """
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
