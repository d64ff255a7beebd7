"""`./admit trial`."""

from collections.abc import Callable

import click
from sqlalchemy.orm import Session

from cli.command_context import CommandContext
from cli.output import Row, json_option, show_list, show_one
from nac.kit.ids import TenantId
from nac.models import Tenant, Trial
from nac.onboarding.trials import lifecycle
from nac.onboarding.trials import service as trials
from nac.onboarding.trials.service import SignUpContext
from nac.tenancy.tenants import service as tenants


@click.group()
def command() -> None:
    """Manage trials: tenants from sign-ups, with limits and an end."""


@command.command("list")
@json_option
def list_(as_json: bool) -> None:
    """List trials, including converted ones."""
    with CommandContext().platform() as session:
        trial_rows = [
            row for page in trials.ORDERS.pages(lambda span: trials.list_trials(session, span=span)) for row in page
        ]
        rows = [_row(row, tenants.require_tenant(session, tenant_id=row.tenant_id)) for row in trial_rows]
    show_list(rows, as_json=as_json)


@command.command()
@click.argument("slug")
@click.option("--msp", default="", metavar="SLUG", help="New MSP of the tenant (default its current MSP).")
@json_option
def convert(slug: str, msp: str, as_json: bool) -> None:
    """Convert the trial SLUG to an ordinary tenant without limits or end."""
    domain = CommandContext()
    desk = SignUpContext(domain.settings.trials, domain.settings.portal_url, domain.sealer.seal)
    _change(
        domain,
        slug,
        lambda session, tenant_id: lifecycle.convert_trial(
            session, desk, actor=domain.actor, tenant_id=tenant_id, msp=msp
        ),
        as_json=as_json,
    )


@command.command()
@click.argument("slug")
@click.argument("days", type=click.IntRange(1, lifecycle.MAX_EXTENSION_DAYS))
@json_option
def extend(slug: str, days: int, as_json: bool) -> None:
    """Extend the trial of the tenant SLUG by DAYS."""
    domain = CommandContext()
    _change(
        domain,
        slug,
        lambda session, tenant_id: lifecycle.extend_trial(session, actor=domain.actor, tenant_id=tenant_id, days=days),
        as_json=as_json,
    )


def _change(domain: CommandContext, slug: str, service: Callable[[Session, TenantId], Trial], *, as_json: bool) -> None:
    with domain.platform() as session:
        tenant = tenants.require_by_slug(session, slug=slug)
        row = _row(service(session, tenant.id), tenant)
    show_one(row, as_json=as_json)


def _row(row: Trial, tenant: Tenant) -> Row:
    return {
        "tenant": tenant.slug,
        "status": tenant.status,
        "trial": row.state,
        "organisation": row.organisation,
        "email": row.email,
        "ends_at": row.ends_at.isoformat(timespec="seconds"),
        # A converted tenant has no end.
        "purged_at": row.purged_at.isoformat(timespec="seconds") if row.state != "converted" else None,
        "over_since": row.over_since and row.over_since.isoformat(timespec="seconds"),
    }
