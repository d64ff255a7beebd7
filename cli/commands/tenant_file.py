"""Commands of `./admit tenant-file`, which export and import tenant files of any size without an upload."""

from pathlib import Path

import click

from cli.commands.tenant import require_msp
from cli.files import create_file
from cli.output import json_option, show_one
from cli.remote.local_api import connect
from nac.kit.errors import InvalidInput

_passphrase_option = click.option(
    "--passphrase-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="File whose first line is the passphrase for the secrets and keys of the tenant.",
)


@click.group()
def command() -> None:
    """Export a tenant to one file, or create a tenant from a file (docs/how-to/tenants.md)."""


def _passphrase(file: Path | None) -> str:
    return file.read_text("utf-8").partition("\n")[0] if file else ""


@command.command()
@click.argument("slug")
@click.option(
    "--out", required=True, type=click.Path(dir_okay=False, path_type=Path), help="Output file for the tenant."
)
@_passphrase_option
@click.option("--logs", is_flag=True, help="Include logs in the file. An import skips the logs.")
@json_option
def export(slug: str, out: Path, passphrase_file: Path | None, logs: bool, as_json: bool) -> None:
    """Export the tenant SLUG to a file. Without a passphrase, the file contains no secrets or keys."""
    # Imported here because they load the database libraries.
    from cli.command_context import CommandContext
    from nac.onboarding.tenant_files.writer import write_tenant

    out = out.resolve()
    if out.exists() and not out.is_file():
        raise InvalidInput("This is not a regular file.", place="--out", remedy="Use the name of a file.")
    domain = CommandContext()
    part = out.with_name(f".{out.name}.part")
    part.unlink(missing_ok=True)
    with (
        create_file(part, mode=0o600) as file,
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
@click.option("--slug", required=True, help="Slug of the new tenant.")
@click.option("--msp", metavar="SLUG", help="Slug of the new tenant's MSP (default the only MSP).")
@_passphrase_option
@click.option(
    "--keep-authorities", is_flag=True, help="Keep the authorities' ids, which certificates of the authorities contain."
)
@json_option
def import_(
    file: Path, slug: str, msp: str | None, passphrase_file: Path | None, keep_authorities: bool, as_json: bool
) -> None:
    """Create a new tenant from FILE. If an error occurs, Admit creates nothing.

    A file that the worker wrote before a purge needs no passphrase on this installation.
    """
    # Imported here because they load the database libraries.
    from cli.command_context import CommandContext
    from nac.onboarding.tenant_files.importer import import_tenant
    from nac.onboarding.tenant_purge import open_stored_passphrase
    from nac.tenancy.cells import service as cells

    msp_id = require_msp(connect(), msp)
    domain = CommandContext()
    with file.open("rb") as source, domain.platform() as session:
        done = import_tenant(
            session,
            source,
            actor=domain.actor,
            slug=slug,
            msp_id=msp_id,
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
