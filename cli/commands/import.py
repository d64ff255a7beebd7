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
    help="If a line is invalid: import nothing, or skip only this line.",
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
    arguments: dict[str, Any] = {
        "document": document,
        "options": service.ImportOptions(**options),
        "seal": domain.sealer.seal,
    }
    if not dry_run:
        with domain.change(tenant, of_radiusd=bool(document.nases)) as (session, tenant_id):
            report = jobs.run_import(session, actor=domain.actor, tenant_id=tenant_id, form=form, **arguments)
        _show(report, as_json=as_json)
        return
    with domain.tenant(tenant) as (session, tenant_id):
        report = jobs.preview_import(session, tenant_id=tenant_id, **arguments)
    _show(report, as_json=as_json)
    if report["mistakes"]:
        raise click.exceptions.Exit(EXIT_INVALID_INPUT)


def _read(form: str, file: Path) -> ImportDocument:
    if file.stat().st_size > MAX_FILE_BYTES:
        raise unreadable_at(0, f"The file has more than {MAX_FILE_BYTES} bytes.", "Split it into several files.")
    return service.read_document(form, file.read_bytes())


def _show(report: dict[str, Any], *, as_json: bool) -> None:
    report = report | {
        "notes": [note | {"text": render_advice(note["text"])} for note in report["notes"]],
        "mistakes": [each | {"remedy": render_advice(each["remedy"])} for each in report["mistakes"]],
    }
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
