"""`./admit msp`."""

import click

from cli.command_context import CommandContext
from cli.errors import confirm
from cli.output import Row, json_option, show_list, show_one
from nac.models import Msp
from nac.onboarding import msp_lifecycle
from nac.tenancy.msps import service as msps


@click.group()
def command() -> None:
    """Manage managed service providers (MSPs), who run tenants for their customers."""


def _row(msp: Msp) -> Row:
    return {"slug": msp.slug, "name": msp.name, "status": msp.status, "deletion_days": msp.deletion_days, "id": msp.id}


@command.command()
@click.argument("slug")
@click.option("--name", default="", help="Display name (default SLUG).")
@json_option
def create(slug: str, name: str, as_json: bool) -> None:
    """Create the MSP SLUG."""
    domain = CommandContext()
    with domain.platform() as session:
        row = _row(msps.create_msp(session, actor=domain.actor, slug=slug, name=name))
    show_one(row, as_json=as_json)


@command.command("list")
@json_option
def list_(as_json: bool) -> None:
    """List MSPs."""
    with CommandContext().platform() as session:
        rows = [_row(msp) for msp in msps.list_msps(session)]
    show_list(rows, as_json=as_json)


@command.command("set")
@click.argument("slug")
@click.option("--name", help="Display name.")
@click.option("--deletion-days", type=int, help="Days for which a deleted tenant can be restored (default 30).")
@json_option
def set_(slug: str, name: str | None, deletion_days: int | None, as_json: bool) -> None:
    """Update the MSP SLUG. Omitted settings do not change."""
    domain = CommandContext()
    with domain.platform() as session:
        msp = msps.require_by_slug(session, slug=slug)
        row = _row(msps.update_msp(session, actor=domain.actor, msp_id=msp.id, name=name, deletion_days=deletion_days))
    show_one(row, as_json=as_json)


@command.command()
@click.argument("slug")
@click.option("--with-tenants", is_flag=True, help="Also suspend its tenants.")
@json_option
def suspend(slug: str, with_tenants: bool, as_json: bool) -> None:
    """Suspend the people and tokens of the MSP SLUG. Its tenants' networks stay active."""
    domain = CommandContext()
    with domain.platform() as session:
        msp_id = msps.require_by_slug(session, slug=slug).id
        row = _row(msp_lifecycle.suspend_msp(session, actor=domain.actor, msp_id=msp_id, with_tenants=with_tenants))
    show_one(row, as_json=as_json)


@command.command()
@click.argument("slug")
@json_option
def resume(slug: str, as_json: bool) -> None:
    """Resume the MSP SLUG, and the tenants that were suspended with it."""
    domain = CommandContext()
    with domain.platform() as session:
        msp_id = msps.require_by_slug(session, slug=slug).id
        row = _row(msp_lifecycle.resume_msp(session, actor=domain.actor, msp_id=msp_id))
    show_one(row, as_json=as_json)


@command.command()
@click.argument("slug")
@click.option("--yes", is_flag=True, help="Skip the confirmation.")
def delete(slug: str, yes: bool) -> None:
    """Delete the MSP SLUG, which must have no tenants, with its members, tokens and templates."""
    if not yes:
        confirm(f"Delete MSP {slug} with its members, tokens and templates?")
    domain = CommandContext()
    with domain.platform() as session:
        msp_id = msps.require_by_slug(session, slug=slug).id
        msp_lifecycle.delete_msp(session, actor=domain.actor, msp_id=msp_id)
