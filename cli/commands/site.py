"""`./admit site`."""

from collections.abc import Iterable

import click
from sqlalchemy.orm import Session

from cli.domain import Domain
from cli.output import Row, json_option, show_list, show_one, tenant_option
from cli.verbs import add_verb
from nac.ids import TenantId
from nac.models import Site
from nac.policies import service as policies
from nac.sites import service as sites


@click.group()
def command() -> None:
    """Sites of a tenant: where its NASes are, and which policy decides there."""


def _rows(session: Session, tenant_id: TenantId, found: Iterable[Site]) -> list[Row]:
    slugs = {policy.id: policy.slug for policy in policies.list_policies(session, tenant_id=tenant_id)}
    default = sites.get_default(session, tenant_id=tenant_id)
    return [
        {
            "slug": site.slug,
            "name": site.name,
            "default": default is not None and site.id == default.id,
            "policy": site.policy_id and slugs[site.policy_id],
            "time_zone": site.time_zone,
            "id": site.id,
        }
        for site in found
    ]


def _row(session: Session, tenant_id: TenantId, site: Site) -> Row:
    return _rows(session, tenant_id, [site])[0]


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
        row = _row(session, tenant_id, site)
    show_one(row, as_json=as_json)


add_verb(
    command,
    "remove",
    sites.remove_site,
    key="slug",
    help="Remove the site SLUG, once it has no NASes, no sessions, no policy names it, and it is not the default site.",
)
add_verb(
    command,
    "make-default",
    sites.make_default,
    key="slug",
    help="Let NASes that are not registered belong to the site SLUG.",
    row=_row,
)


@command.command("list")
@tenant_option
@json_option
def list_(tenant: str, as_json: bool) -> None:
    """List the sites: the policy that decides at each, and which one NASes belong to that are not registered."""
    with Domain().tenant(tenant) as (session, tenant_id):
        rows = _rows(session, tenant_id, sites.list_sites(session, tenant_id=tenant_id))
    show_list(rows, as_json=as_json)
