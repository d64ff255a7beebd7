"""`./admit audit`."""

from pathlib import Path

import click

from cli.errors import require_utf8
from cli.output import Row, json_option, show_one


@click.group()
def command() -> None:
    """Show, export and verify the audit log of a tenant, an MSP or, by default, the platform."""


_File = click.Path(path_type=Path, exists=True, dir_okay=False)


@command.command()
@click.argument("file", type=_File)
@click.option(
    "--head",
    "heads",
    type=_File,
    multiple=True,
    help="File with a stored head of the audit log, or an earlier export; repeatable.",
)
@click.option("--key", type=_File, help="PEM file with the platform's public key from a trusted source.")
@json_option
def verify(file: Path, heads: tuple[Path, ...], key: Path | None, as_json: bool) -> None:
    """Verify FILE, an export of the audit log. Exit status 1 if FILE was altered. Needs no database."""
    # Imported here because it loads the database libraries.
    from nac.core.audit.verification import parse_known_head, verify_export

    known = [parse_known_head(_read(head)) for head in heads]
    with require_utf8(file.name), file.open(encoding="utf-8") as lines:
        result = verify_export(lines, known=known, public_key=_read(key) if key else "")
    row: Row = {
        "chain": result.chain,
        "verified": not result.findings,
        "after": result.after,
        "last": result.last,
        "entries": result.entries,
        "findings": result.findings,
        "notes": result.notes if known else [*result.notes, "not compared with a stored head (--head)"],
    }
    show_one(row, as_json=as_json)
    if result.findings:
        click.get_current_context().exit(1)


def _read(path: Path) -> str:
    with require_utf8(path.name):
        return path.read_text(encoding="utf-8")
