"""`./admit site`."""

from collections.abc import Iterable
from typing import BinaryIO

import click
from sqlalchemy.orm import Session

from cli.domain import Domain
from cli.mistakes import mistakes_listed
from cli.output import Row, json_option, show_list, show_one, tenant_option
from cli.verbs import add_verb
from nac.engine import parse_policy_text
from nac.ids import TenantId
from nac.models import Site
from nac.policies import service as policies
from nac.policies.key_order import order_keys
from nac.sites import service as sites


@click.group()
def command() -> None:
    """Sites of a tenant: where its NASes are, and which policy decides there."""


_monitor_option = click.option(
    "--monitor/--no-monitor", default=None, help="Log what policy would decide, and admit as the fallback admits."
)
_fallback_option = click.option(
    "--fallback",
    type=click.File("rb"),
    metavar="FILE",
    help="An outcome (JSON) in place of the policy's own fallback.",
)


def _rows(session: Session, tenant_id: TenantId, found: Iterable[Site]) -> list[Row]:
    slugs = {policy.id: policy.slug for policy in policies.list_policies(session, tenant_id=tenant_id)}
    default = sites.get_default(session, tenant_id=tenant_id)
    return [
        {
            "slug": site.slug,
            "name": site.name,
            "default": default is not None and site.id == default.id,
            "policy": site.policy_id and slugs[site.policy_id],
            "mode": "monitor" if site.monitor else "enforce",
            # None: the policy's own.
            "fallback": order_keys(site.fallback),
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
@_monitor_option
@_fallback_option
@json_option
def add(
    slug: str,
    tenant: str,
    name: str,
    time_zone: str,
    monitor: bool | None,
    fallback: BinaryIO | None,
    as_json: bool,
) -> None:
    """Add the site SLUG; it denies everything until a policy is assigned."""
    domain = Domain()
    with mistakes_listed(as_json=as_json), domain.change(tenant) as (session, tenant_id):
        site = sites.create_site(
            session, actor=domain.actor, tenant_id=tenant_id, slug=slug, name=name, time_zone=time_zone
        )
        if monitor or fallback is not None:
            sites.update_site(
                session,
                actor=domain.actor,
                tenant_id=tenant_id,
                slug=slug,
                monitor=monitor,
                fallback=_read_fallback(fallback),
            )
        row = _row(session, tenant_id, site)
    show_one(row, as_json=as_json)


@command.command("set")
@click.argument("slug")
@tenant_option
@click.option("--name", help="For people.")
@click.option("--time-zone", help="IANA name, such as Europe/Berlin.")
@_monitor_option
@_fallback_option
@click.option("--no-fallback", is_flag=True, help="Use the policy's own fallback again.")
@json_option
def set_(
    slug: str,
    tenant: str,
    name: str | None,
    time_zone: str | None,
    monitor: bool | None,
    fallback: BinaryIO | None,
    no_fallback: bool,
    as_json: bool,
) -> None:
    """Change what is given of the site SLUG.

    In monitor mode policy decides nothing: what it would decide is logged (./admit decisions), and devices are admitted
    as the fallback admits or, where that denies, without a VLAN or other attributes. Wrong passwords, bad certificates
    and blocked devices are refused all the same.
    """
    if no_fallback and fallback is not None:
        raise click.UsageError("Give either --fallback or --no-fallback.")
    domain = Domain()
    with mistakes_listed(as_json=as_json), domain.change(tenant) as (session, tenant_id):
        site = sites.update_site(
            session,
            actor=domain.actor,
            tenant_id=tenant_id,
            slug=slug,
            name=name,
            monitor=monitor,
            time_zone=time_zone,
            fallback=None if no_fallback else _read_fallback(fallback),
        )
        row = _row(session, tenant_id, site)
    show_one(row, as_json=as_json)


def _read_fallback(file: BinaryIO | None) -> object:
    return sites.UNCHANGED if file is None else parse_policy_text(file.read())


add_verb(
    command,
    "remove",
    sites.delete_site,
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
