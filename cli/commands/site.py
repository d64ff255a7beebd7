"""`./admit site`."""

import click

from cli.domain import Domain
from cli.output import Row, json_option, show_list, show_one, tenant_option
from cli.verbs import add_verb
from nac.models import Site
from nac.sites import service as sites


@click.group()
def command() -> None:
    """Sites of a tenant: where its NASes are, and which policy decides there."""


def _row(site: Site) -> Row:
    return {
        "slug": site.slug,
        "name": site.name,
        "time_zone": site.time_zone,
        "policy_id": site.policy_id,
        "id": site.id,
    }


@command.command()
@click.argument("slug")
@tenant_option
@click.option("--name", default="", help="For people; SLUG where not given.")
@click.option("--time-zone", default="UTC", show_default=True, help="IANA name, such as Europe/Berlin.")
@json_option
def add(slug: str, tenant: str, name: str, time_zone: str, as_json: bool) -> None:
    """Add the site SLUG; it denies everything until a policy is assigned."""
    domain = Domain()
    with domain.change(tenant) as (session, tenant_id):
        site = sites.add_site(
            session, actor=domain.actor, tenant_id=tenant_id, slug=slug, name=name, time_zone=time_zone
        )
        row = _row(site)
    show_one(row, as_json=as_json)


add_verb(
    command,
    "remove",
    sites.remove_site,
    key="slug",
    help="Remove the site SLUG, once it has no NASes and no sessions and is not the default site.",
)
add_verb(
    command,
    "make-default",
    sites.make_default,
    key="slug",
    help="Let NASes that are not registered belong to the site SLUG.",
    row=lambda session, tenant_id, site: _row(site),
)


@command.command("list")
@tenant_option
@json_option
def list_(tenant: str, as_json: bool) -> None:
    """List the sites."""
    with Domain().tenant(tenant) as (session, tenant_id):
        rows = [_row(site) for site in sites.list_sites(session, tenant_id=tenant_id)]
    show_list(rows, as_json=as_json)
