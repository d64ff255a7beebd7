"""`./admit site`."""

from collections.abc import Iterable
from typing import BinaryIO

import click
from sqlalchemy.orm import Session

from cli.command_context import CommandContext
from cli.mistakes import report_policy_mistakes
from cli.output import Row, json_option, show_list, show_one, tenant_option
from cli.verbs import add_verb
from nac.engine import parse_policy_text
from nac.kit.ids import TenantId
from nac.models import Site
from nac.policies import service as policies
from nac.policies import site_settings
from nac.policies.key_order import order_keys
from nac.tenancy.sites import service as sites


@click.group()
def command() -> None:
    """Manage sites of a tenant: NASes and the policy for them."""


_monitor_option = click.option(
    "--monitor/--no-monitor", default=None, help="Log the decisions of the policy, but admit as the fallback does."
)
_fallback_option = click.option(
    "--fallback",
    type=click.File("rb"),
    metavar="FILE",
    help="Outcome (JSON) that replaces the policy's fallback.",
)


def _rows(session: Session, tenant_id: TenantId, site_list: Iterable[Site]) -> list[Row]:
    slugs = {policy.id: policy.slug for policy in policies.list_policies(session, tenant_id=tenant_id)}
    default = sites.get_default(session, tenant_id=tenant_id)
    return [
        {
            "slug": site.slug,
            "name": site.name,
            "default": default is not None and site.id == default.id,
            "policy": site.policy_id and slugs[site.policy_id],
            "mode": "monitor" if site.monitor else "enforce",
            # None means the policy's fallback.
            "fallback": order_keys(site.fallback),
            "time_zone": site.time_zone,
            "id": site.id,
        }
        for site in site_list
    ]


def _row(session: Session, tenant_id: TenantId, site: Site) -> Row:
    return _rows(session, tenant_id, [site])[0]


@command.command()
@click.argument("slug")
@tenant_option
@click.option("--name", default="", help="Display name (default SLUG).")
@click.option("--time-zone", default="UTC", show_default=True, help="IANA time zone, such as Europe/Berlin.")
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
    """Create the site SLUG. It denies all requests until you assign a policy."""
    domain = CommandContext()
    with report_policy_mistakes(as_json=as_json), domain.change(tenant) as (session, tenant_id):
        site = sites.create_site(
            session, actor=domain.actor, tenant_id=tenant_id, slug=slug, name=name, time_zone=time_zone
        )
        if monitor or fallback is not None:
            site_settings.update_site(
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
@click.option("--name", help="Display name.")
@click.option("--time-zone", help="IANA time zone, such as Europe/Berlin.")
@_monitor_option
@_fallback_option
@click.option("--no-fallback", is_flag=True, help="Use the policy's fallback again.")
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
    """Update the site SLUG. Omitted settings do not change.

    In monitor mode the policy's decisions are only logged (./admit decisions). Devices are admitted as by the fallback.
    If the fallback denies, they are admitted without a VLAN or other attributes. Wrong passwords, invalid certificates
    and blocked devices are still rejected.
    """
    if no_fallback and fallback is not None:
        raise click.UsageError("Use only one of --fallback and --no-fallback.")
    domain = CommandContext()
    with report_policy_mistakes(as_json=as_json), domain.change(tenant) as (session, tenant_id):
        site = site_settings.update_site(
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
    return site_settings.UNCHANGED if file is None else parse_policy_text(file.read())


add_verb(
    command,
    "remove",
    sites.delete_site,
    key="slug",
    help="Delete the site SLUG. It must have no NASes and no sessions, no policy may refer to "
    "it, and it must not be the default.",
)
add_verb(
    command,
    "make-default",
    sites.make_default,
    key="slug",
    help="Make SLUG the default site, for unregistered NASes.",
    row=_row,
)


@command.command("list")
@tenant_option
@json_option
def list_(tenant: str, as_json: bool) -> None:
    """List sites with their policies, and the default site for unregistered NASes."""
    with CommandContext().tenant(tenant) as (session, tenant_id):
        rows = _rows(session, tenant_id, sites.list_sites(session, tenant_id=tenant_id))
    show_list(rows, as_json=as_json)
