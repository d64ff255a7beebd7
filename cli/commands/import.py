"""`./admit import`."""
# ruff: noqa: N999 -- the file is named as the command is

from pathlib import Path
from typing import Any

import click

from cli.errors import EXIT_INVALID_INPUT
from cli.output import escape_unprintable, json_option, show_json, tenant_option
from cli.remote.commands import call_operation
from cli.remote.local_api import await_radiusd, connect
from cli.remote.results import name_commands
from nac.kit.errors import InvalidInput
from nac.onboarding.imports.document import MAX_FILE_BYTES

_FORMATS = (
    "endpoints",
    "nases",
    "users",
    "freeradius-clients",
    "freeradius-users",
    "packetfence-nodes",
    "ise-endpoints",
)


@click.command()
@click.argument("form", metavar="FORMAT", type=click.Choice(_FORMATS))
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@tenant_option
@click.option("--dry-run", is_flag=True, help="Show the action for each line without changing data.")
@click.option(
    "--existing",
    type=click.Choice(("refuse", "update", "keep")),
    default="refuse",
    show_default=True,
    help="Action for lines whose object already exists.",
)
@click.option("--make-groups", is_flag=True, help="Create groups that do not exist.")
@click.option("--allow-random", is_flag=True, help="Also approve devices with random MAC addresses.")
@click.option("--allow-chap", "chap", is_flag=True, help="Also store passwords in the form that CHAP requires.")
@click.option("--allow-mschap", "mschap", is_flag=True, help="Also store passwords in the form that MS-CHAP requires.")
@click.option(
    "--wrong",
    type=click.Choice(("refuse", "leave-out")),
    default="refuse",
    show_default=True,
    help="Action for invalid lines: import nothing (refuse), or skip only the invalid lines (leave-out).",
)
@json_option
def command(
    form: str,
    file: Path,
    tenant: str,
    dry_run: bool,
    as_json: bool,
    **options: Any,  # noqa: ANN401 -- parameters of the API
) -> None:
    """Import FILE into a tenant. If a line is invalid, nothing is imported by default.

    FORMAT is the format of the file (docs/how-to/imports.md). Use --dry-run first.
    """
    api = connect()
    call: dict[str, Any] = {"tenant": tenant, "format": form, "dry_run": dry_run, **options}
    report = name_commands(call_operation(api, "import-file", body=_read(file), **call))
    if not dry_run and report["counts"].get("nases"):
        await_radiusd(api, tenant)
    _show(report, as_json=as_json)
    if dry_run and report["mistakes"]:
        raise click.exceptions.Exit(EXIT_INVALID_INPUT)


def _read(file: Path) -> bytes:
    if file.stat().st_size > MAX_FILE_BYTES:
        raise InvalidInput(
            f"The file has more than {MAX_FILE_BYTES} bytes.", remedy="Split the file into several files."
        )
    return file.read_bytes()


def _show(report: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        show_json(report)
        return
    for row in report["rows"]:
        click.echo(f"line {row['line']}: {row['action']} {escape_unprintable(row['name'])}")
    _more(report, "rows")
    for note in report["notes"]:
        click.echo(f"line {note['line']}: {escape_unprintable(note['text'])}")
    _more(report, "notes")
    for mistake in report["mistakes"]:
        field = f": {mistake['field']}" if mistake["field"] else ""
        click.echo(
            f"line {mistake['line']}{field}: {escape_unprintable(mistake['detail'])} {mistake['remedy']}", err=True
        )
    _more(report, "mistakes")
    for noun, count in report["counts"].items():
        if isinstance(count, dict):
            click.echo(f"{noun}: " + ", ".join(f"{number} {action}" for action, number in count.items()))
        elif count:
            click.echo(f"{noun.replace('_', ' ')}: {', '.join(map(escape_unprintable, count))}")


def _more(report: dict[str, Any], what: str) -> None:
    if (more := report[f"{what}_in_all"] - len(report[what])) > 0:
        click.echo(f"... and {more} more {what}")
