"""`./admit tenant`."""

from collections.abc import Callable
from datetime import timedelta
from functools import partial

import click
from sqlalchemy.orm import Session

from cli.command_context import CommandContext
from cli.errors import Refused, confirm
from cli.output import Row, json_option, show_one
from nac.kit.clock import utc_now
from nac.kit.ids import MspId
from nac.models import Slot, Tenant
from nac.onboarding import tenant_purge
from nac.onboarding.provisioning import provision_tenant
from nac.onboarding.trials.provisioning import TRIAL_MSP_SLUG as TRIALS
from nac.tenancy.cells import service as cells
from nac.tenancy.msps import service as msps
from nac.tenancy.tenants import service as tenants


@click.group()
def command() -> None:
    """Manage tenants: customers with their own ports, secret, certificate authorities, policies and data."""


def _row(tenant: Tenant, slot: Slot | None) -> dict[str, object]:
    return {
        "slug": tenant.slug,
        "name": tenant.name,
        "status": tenant.status,
        "cell": slot and slot.cell_id,
        "slot": slot and slot.number,
        "auth_port": slot and slot.auth_port,
        "acct_port": slot and slot.acct_port,
        "methods": list(tenant.methods),
        "tls_versions": list(tenant.tls_versions),
        "replay_days": tenant.replay_days or 0,
        "status_failure": tenant.status_failure,
        "nat_session_seconds": tenant.nat_session_seconds,
        "silent_reports": tenant.silent_reports,
        "silent_days": tenant.silent_days,
        "failure_limit": tenant.failure_limit,
        "failure_window_seconds": tenant.failure_window_seconds,
        "password_failure_limit": tenant.password_failure_limit,
        "password_failure_window_seconds": tenant.password_failure_window_seconds,
        "realms": list(tenant.realms),
    }


def _full_row(domain: CommandContext, session: Session, tenant: Tenant) -> Row:
    """Row with the values for a switch configuration."""
    slot = cells.require_slot(session, tenant_id=tenant.id)
    secret = domain.sealer.open(slot.secret_sealed, cells.slot_secret_context(slot)).decode()
    host = domain.settings.listen_address
    return _row(tenant, slot) | {
        "radius_host": host,
        "radius_secret": secret,
        "id": tenant.id,
    }


@command.command()
@click.argument("slug")
@click.option("--name", default="", help="Display name (default SLUG).")
@click.option("--msp", metavar="SLUG", help="The tenant's MSP (default if there is only one).")
@click.option("--place", default="", metavar="LABEL", help="Label of the cell.")
@click.option("--standard-policy", is_flag=True, help="Create a policy that admits approved devices and users.")
@json_option
def create(slug: str, name: str, msp: str | None, place: str, standard_policy: bool, as_json: bool) -> None:
    """Create the tenant SLUG. It denies all requests until a site has a policy."""
    domain = CommandContext()
    with domain.platform() as session:
        tenant = provision_tenant(
            session,
            actor=domain.actor,
            slug=slug,
            name=name,
            msp_id=find_msp(session, msp),
            label=place,
            has_policy=standard_policy,
            signing=domain.signing,
        )
        row = _full_row(domain, session, tenant)
        xact = cells.get_current_xact(session)
    domain.await_live(tenant.id, xact)
    show_one(row, as_json=as_json)


def find_msp(session: Session, slug: str | None) -> MspId:
    if slug is not None:
        return msps.require_by_slug(session, slug=slug).id
    # The MSP of the trials is never the default.
    found = [msp for msp in msps.list_msps(session) if msp.slug != TRIALS]
    if not found:
        raise Refused("No MSP exists.", place="msp", remedy="Create one: ./admit msp create SLUG")
    if len(found) > 1:
        raise Refused(
            "Several MSPs exist.", place="msp", remedy=f"Use --msp with one of: {', '.join(m.slug for m in found)}."
        )
    return found[0].id


@command.command()
@click.argument("slug")
@json_option
def show(slug: str, as_json: bool) -> None:
    """Show the tenant SLUG, including its RADIUS secret."""
    domain = CommandContext()
    with domain.tenant(slug) as (session, _):
        row = _full_row(domain, session, tenants.require_by_slug(session, slug=slug))
    show_one(row, as_json=as_json)


@command.command()
@click.argument("slug")
@json_option
def resume(slug: str, as_json: bool) -> None:
    """Resume a suspended tenant or restore a deleted one."""
    tenant = _change(CommandContext(), slug, tenants.resume_tenant)
    show_one({"slug": slug, "status": tenant.status}, as_json=as_json)


@command.command()
@click.argument("slug")
@click.option(
    "--purge", is_flag=True, help="Also delete its data permanently: certificates, endpoints, users, policies."
)
@click.option("--yes", is_flag=True, help="Skip the confirmation.")
@click.option(
    "--days",
    type=click.IntRange(*msps.DELETION_DAYS),
    help="Days until the worker writes a tenant file and purges the tenant (default: only --purge deletes its data).",
)
@json_option
def delete(slug: str, purge: bool, yes: bool, days: int | None, as_json: bool) -> None:
    """Delete the tenant SLUG: its service stops immediately. With --purge, also delete its data."""
    domain = CommandContext()
    if purge and not yes:
        confirm(f"Delete tenant {slug} with all its data?")
    purge_at = utc_now() + timedelta(days=days) if days else None
    tenant = _change(domain, slug, partial(tenants.delete_tenant, purge_at=purge_at))
    if purge:
        with domain.platform() as session:
            tenant_purge.purge_tenant(session, actor=domain.actor, tenant_id=tenant.id)
    show_one({"slug": slug, "status": "purged" if purge else tenant.status}, as_json=as_json)


def _change(domain: CommandContext, slug: str, service: Callable[..., Tenant]) -> Tenant:
    with domain.change(slug) as (session, tenant_id):
        return service(session, actor=domain.actor, tenant_id=tenant_id)
