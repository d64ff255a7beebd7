"""`./admit tenant-file`."""

import os
from pathlib import Path

import click

from cli.commands.tenant import find_msp
from cli.domain import Domain
from cli.output import json_option, show_one
from nac.cells import service as cells
from nac.tenant_files.importer import import_tenant
from nac.tenant_files.tenant_purge import open_stored_passphrase
from nac.tenant_files.writer import write_tenant

_passphrase_option = click.option(
    "--passphrase-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Its first line is the passphrase that secrets and keys are sealed with.",
)


@click.group()
def command() -> None:
    """All of a tenant as one file, and a tenant made of one (docs/how-to/tenants.md)."""


def _passphrase(file: Path | None) -> str:
    return file.read_text("utf-8").partition("\n")[0] if file else ""


@command.command()
@click.argument("slug")
@click.option("--out", required=True, type=click.Path(dir_okay=False, path_type=Path), help="That is written.")
@_passphrase_option
@click.option("--logs", is_flag=True, help="With its logs, which are for reading and never brought in again.")
@json_option
def export(slug: str, out: Path, passphrase_file: Path | None, logs: bool, as_json: bool) -> None:
    """Write all of the tenant SLUG into a file; without a passphrase no secret and no key is in it."""
    domain = Domain()
    part = out.with_name(f".{out.name}.part")
    part.unlink(missing_ok=True)
    with (
        open(os.open(part, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file,
        domain.tenant(slug, is_snapshot=True) as (session, tenant_id),
    ):
        written = write_tenant(
            session,
            file,
            actor=domain.actor,
            tenant_id=tenant_id,
            sealer=domain.sealer,
            passphrase=_passphrase(passphrase_file),
            logs=logs,
        )
    part.replace(out)
    for note in written.notes:
        click.echo(f"Note: {note}", err=True)
    show_one({"file": str(out), "rows": sum(written.rows.values())}, as_json=as_json)


@command.command("import")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--slug", required=True, help="Of the new tenant.")
@click.option("--msp", metavar="SLUG", help="Whose tenant it is; may be left out where there is one MSP.")
@_passphrase_option
@click.option(
    "--keep-authorities", is_flag=True, help="With the ids that their certificates name, in place of new ones."
)
@json_option
def import_(
    file: Path, slug: str, msp: str | None, passphrase_file: Path | None, keep_authorities: bool, as_json: bool
) -> None:
    """Make the new tenant SLUG of FILE: all of it, or nothing.

    A file that was written before its tenant was purged opens by itself here.
    """
    domain = Domain()
    with file.open("rb") as source, domain.platform() as session:
        done = import_tenant(
            session,
            source,
            actor=domain.actor,
            slug=slug,
            msp_id=find_msp(session, msp),
            signing=domain.signing,
            passphrase=_passphrase(passphrase_file) or open_stored_passphrase(file, domain.sealer),
            keeps_authorities=keep_authorities,
        )
        tenant_id = done.tenant.id
        slot = cells.require_slot(session, tenant_id=tenant_id)
        row = {"slug": slug, "rows": sum(done.rows.values()), "auth_port": slot.auth_port, "acct_port": slot.acct_port}
        xact = cells.get_current_xact(session)
    domain.await_live(tenant_id, xact)
    for note in done.notes:
        click.echo(f"Note: {note}", err=True)
    show_one(row, as_json=as_json)
