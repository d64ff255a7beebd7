"""`./admit msp`."""

import click

from cli.domain import Domain
from cli.fail import confirm
from cli.output import Row, json_option, show_list, show_one
from nac.models import Msp
from nac.msps import lifecycle
from nac.msps import service as msps


@click.group()
def command() -> None:
    """Managed service providers, who run tenants for their customers."""


def _row(msp: Msp) -> Row:
    return {"slug": msp.slug, "name": msp.name, "status": msp.status, "deletion_days": msp.deletion_days, "id": msp.id}


@command.command()
@click.argument("slug")
@click.option("--name", default="", help="For people; SLUG where not given.")
@json_option
def create(slug: str, name: str, as_json: bool) -> None:
    """Create the MSP SLUG."""
    domain = Domain()
    with domain.platform() as session:
        row = _row(msps.create_msp(session, actor=domain.actor, slug=slug, name=name))
    show_one(row, as_json=as_json)


@command.command("list")
@json_option
def list_(as_json: bool) -> None:
    """List the MSPs."""
    with Domain().platform() as session:
        rows = [_row(msp) for msp in msps.list_msps(session)]
    show_list(rows, as_json=as_json)


@command.command("set")
@click.argument("slug")
@click.option("--name", help="For people.")
@click.option("--deletion-days", type=int, help="How long a tenant that was deleted can be had back (first: 30).")
@json_option
def set_(slug: str, name: str | None, deletion_days: int | None, as_json: bool) -> None:
    """Change the MSP SLUG; what is not given stays."""
    domain = Domain()
    with domain.platform() as session:
        msp = msps.require_by_slug(session, slug=slug)
        row = _row(msps.update_msp(session, actor=domain.actor, msp_id=msp.id, name=name, deletion_days=deletion_days))
    show_one(row, as_json=as_json)


@command.command()
@click.argument("slug")
@click.option("--with-tenants", is_flag=True, help="Admit nothing of its tenants either.")
@json_option
def suspend(slug: str, with_tenants: bool, as_json: bool) -> None:
    """Keep the people and tokens of the MSP SLUG out; its tenants' networks go on."""
    domain = Domain()
    with domain.platform() as session:
        msp_id = msps.require_by_slug(session, slug=slug).id
        row = _row(lifecycle.suspend_msp(session, actor=domain.actor, msp_id=msp_id, with_tenants=with_tenants))
    show_one(row, as_json=as_json)


@command.command()
@click.argument("slug")
@json_option
def resume(slug: str, as_json: bool) -> None:
    """End the suspension of the MSP SLUG, and of the tenants that were suspended with it."""
    domain = Domain()
    with domain.platform() as session:
        msp_id = msps.require_by_slug(session, slug=slug).id
        row = _row(lifecycle.resume_msp(session, actor=domain.actor, msp_id=msp_id))
    show_one(row, as_json=as_json)


@command.command()
@click.argument("slug")
@click.option("--yes", is_flag=True, help="Do not ask.")
def delete(slug: str, yes: bool) -> None:
    """Remove the MSP SLUG, which has no tenant left, with its members, tokens and templates."""
    if not yes:
        confirm(f"Remove MSP {slug} with its members, tokens and templates?")
    domain = Domain()
    with domain.platform() as session:
        msp_id = msps.require_by_slug(session, slug=slug).id
        lifecycle.delete_msp(session, actor=domain.actor, msp_id=msp_id)
