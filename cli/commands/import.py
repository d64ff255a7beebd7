"""`./admit import`."""
# ruff: noqa: N999 -- the file is named as the command is

from pathlib import Path
from typing import Any, get_args

import click

from cli.command_context import CommandContext
from cli.errors import EXIT_INVALID_INPUT
from cli.operation_commands import render_advice
from cli.output import escape_unprintable, json_option, show_json, tenant_option
from nac.kit.bulk_rows import OnExisting
from nac.onboarding.imports import jobs, service
from nac.onboarding.imports.document import MAX_FILE_BYTES, ImportDocument, unreadable_at


@click.command()
@click.argument("form", metavar="FORMAT", type=click.Choice(list(service.FORMATS)))
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@tenant_option
@click.option("--dry-run", is_flag=True, help="Show the action for each line without changing data.")
@click.option(
    "--existing",
    type=click.Choice(get_args(OnExisting)),
    default="refuse",
    show_default=True,
    help="Action for objects that exist.",
)
@click.option("--make-groups", is_flag=True, help="Create missing groups.")
@click.option("--allow-random", is_flag=True, help="Also approve random MAC addresses.")
@click.option("--chap", is_flag=True, help="Store passwords for CHAP too.")
@click.option("--mschap", is_flag=True, help="Store passwords for MS-CHAP too.")
@click.option(
    "--wrong",
    type=click.Choice(get_args(service.OnMistake)),
    default="refuse",
    show_default=True,
    help="Import nothing, or skip the line, if a line is invalid.",
)
@json_option
def command(
    form: str,
    file: Path,
    tenant: str,
    dry_run: bool,
    as_json: bool,
    **options: Any,  # noqa: ANN401 -- fields of Options
) -> None:
    """Import FILE into a tenant. If a line is invalid, nothing is imported by default.

    FORMAT is the format of the file (docs/how-to/imports.md). Start with --dry-run.
    """
    document = _read(form, file)
    domain = CommandContext()
    given: dict[str, Any] = {
        "document": document,
        "options": service.ImportOptions(**options),
        "seal": domain.sealer.seal,
    }
    if not dry_run:
        with domain.change(tenant, of_radiusd=bool(document.nases)) as (session, tenant_id):
            told = jobs.run_import(session, actor=domain.actor, tenant_id=tenant_id, form=form, **given)
        _show(told, as_json=as_json)
        return
    with domain.tenant(tenant) as (session, tenant_id):
        told = jobs.preview_import(session, tenant_id=tenant_id, **given)
    _show(told, as_json=as_json)
    if told["mistakes"]:
        raise click.exceptions.Exit(EXIT_INVALID_INPUT)


def _read(form: str, file: Path) -> ImportDocument:
    if file.stat().st_size > MAX_FILE_BYTES:
        raise unreadable_at(0, f"The file has more than {MAX_FILE_BYTES} bytes.", "Split it into several files.")
    return service.read_document(form, file.read_bytes())


def _show(told: dict[str, Any], *, as_json: bool) -> None:
    told = told | {
        "notes": [note | {"text": render_advice(note["text"])} for note in told["notes"]],
        "mistakes": [each | {"remedy": render_advice(each["remedy"])} for each in told["mistakes"]],
    }
    if as_json:
        show_json(told)
        return
    for row in told["rows"]:
        click.echo(f"line {row['line']}: {row['action']} {escape_unprintable(row['name'])}")
    _more(told, "rows")
    for note in told["notes"]:
        click.echo(f"line {note['line']}: {escape_unprintable(note['text'])}")
    _more(told, "notes")
    for mistake in told["mistakes"]:
        field = f": {mistake['field']}" if mistake["field"] else ""
        click.echo(
            f"line {mistake['line']}{field}: {escape_unprintable(mistake['detail'])} {mistake['remedy']}", err=True
        )
    _more(told, "mistakes")
    for noun, count in told["counts"].items():
        if isinstance(count, dict):
            click.echo(f"{noun}: " + ", ".join(f"{number} {action}" for action, number in count.items()))
        elif count:
            click.echo(f"{noun.replace('_', ' ')}: {', '.join(map(escape_unprintable, count))}")


def _more(told: dict[str, Any], what: str) -> None:
    if (more := told[f"{what}_in_all"] - len(told[what])) > 0:
        click.echo(f"... and {more} more {what}")
