"""`./admit tenant`."""

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Literal

import click
from sqlalchemy.orm import Session

from cli.command_context import CommandContext
from cli.commands._tenant_self_test import self_test
from cli.errors import Refused, confirm
from cli.output import Row, json_option, show_list, show_one
from nac.cellformat.methods import METHODS, TLS_VERSIONS, list_risks, parse_offer
from nac.kit.clock import utc_now
from nac.kit.errors import InvalidInput
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


command.add_command(self_test)


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
    candidates = [msp for msp in msps.list_msps(session) if msp.slug != TRIALS]
    if not candidates:
        raise Refused("No MSP exists.", place="msp", remedy="Create one: ./admit msp create SLUG")
    if len(candidates) > 1:
        raise Refused(
            "Several MSPs exist.",
            place="msp",
            remedy=f"Use --msp with one of: {', '.join(m.slug for m in candidates)}.",
        )
    return candidates[0].id


@command.command()
@click.argument("slug")
@json_option
def show(slug: str, as_json: bool) -> None:
    """Show the tenant SLUG, including its RADIUS secret."""
    domain = CommandContext()
    with domain.tenant(slug) as (session, _):
        row = _full_row(domain, session, tenants.require_by_slug(session, slug=slug))
    show_one(row, as_json=as_json)


@command.command("list")
@json_option
def list_(as_json: bool) -> None:
    """List tenants."""
    with CommandContext().platform() as session:
        slots = cells.slots_by_tenant(session)
        pages = tenants.ORDERS.pages(lambda span: tenants.list_tenants(session, span=span))
        rows = [_row(tenant, slots.get(tenant.id)) for page in pages for tenant in page]
    show_list(rows, as_json=as_json)


@command.command("set")
@click.argument("slug")
@click.option("--methods", metavar="LIST", help=f"Offered methods, separated by commas: {', '.join(METHODS)}.")
@click.option(
    "--tls-versions", metavar="LIST", help=f"Offered TLS versions, separated by commas: {', '.join(TLS_VERSIONS)}."
)
@click.option(
    "--replay-days",
    type=click.IntRange(0, tenants.MAX_REPLAY_DAYS),
    help="Days of requests to replay before publication; 0 for no replay. Differences then need an acknowledgement.",
)
@click.option(
    "--status-failure",
    type=click.Choice(["soft", "hard"]),
    help="Certificates of external authorities without fresh status: soft admits them, hard rejects them.",
)
@click.option(
    "--nat-session-seconds",
    type=int,
    metavar="SECONDS",
    help="Session-Timeout in seconds at NASes behind NAT, which no CoA reaches; 0 for none.",
)
@click.option(
    "--silent-reports",
    type=int,
    metavar="N",
    help="Missing Interim-Updates after which a session counts as ended (default 3).",
)
@click.option(
    "--silent-days",
    type=int,
    metavar="N",
    help="Silent days after which a session without Interim-Updates counts as ended (default 7).",
)
@click.option(
    "--failure-limit",
    type=int,
    metavar="N",
    help="Failures of one device at one NAS before further ones are limited (default 200).",
)
@click.option(
    "--failure-window-seconds", type=int, metavar="SECONDS", help="Window of --failure-limit in seconds (default 60)."
)
@click.option(
    "--password-failure-limit",
    type=int,
    metavar="N",
    help="Wrong passwords of one user name (default 20); see docs/reference/limits.md.",
)
@click.option(
    "--password-failure-window-seconds",
    type=int,
    metavar="SECONDS",
    help="Window of --password-failure-limit in seconds (default 900).",
)
@click.option(
    "--realms",
    metavar="LIST",
    help='Realms and NetBIOS domains to remove from user names, such as CORP,corp.example; "" for none.',
)
@json_option
def set_(
    slug: str,
    methods: str | None,
    tls_versions: str | None,
    replay_days: int | None,
    status_failure: Literal["soft", "hard"] | None,
    nat_session_seconds: int | None,
    silent_reports: int | None,
    silent_days: int | None,
    failure_limit: int | None,
    failure_window_seconds: int | None,
    password_failure_limit: int | None,
    password_failure_window_seconds: int | None,
    realms: str | None,
    as_json: bool,
) -> None:
    """Update the tenant SLUG. Omitted settings do not change.

    PEAP is offered only if you list it, because an imitated network can recover passwords from it
    (docs/reference/methods.md).
    """
    silence = (silent_reports, silent_days)
    failures = (failure_limit, failure_window_seconds, password_failure_limit, password_failure_window_seconds)
    others = (methods, tls_versions, replay_days, status_failure, nat_session_seconds, realms)
    if all(value is None for value in (*others, *silence, *failures)):
        raise InvalidInput("No setting to change.", remedy="See ./admit tenant set --help.")
    offer = parse_offer(methods=methods, tls_versions=tls_versions)
    domain = CommandContext()
    with domain.change(slug, of_radiusd=tls_versions is not None) as (session, tenant_id):
        tenant = tenants.update_method_offer(session, actor=domain.actor, tenant_id=tenant_id, offer=offer)
        if replay_days is not None:
            tenant = tenants.update_replay_days(
                session, actor=domain.actor, tenant_id=tenant_id, days=replay_days or None
            )
        if status_failure is not None:
            tenant = tenants.update_status_failure(session, actor=domain.actor, tenant_id=tenant_id, to=status_failure)
        if nat_session_seconds is not None:
            tenant = tenants.update_nat_session(
                session, actor=domain.actor, tenant_id=tenant_id, seconds=nat_session_seconds
            )
        if silence != (None, None):
            tenant = tenants.update_silence(
                session, actor=domain.actor, tenant_id=tenant_id, reports=silent_reports, days=silent_days
            )
        if any(value is not None for value in failures):
            tenant = tenants.update_failure_limits(
                session,
                actor=domain.actor,
                tenant_id=tenant_id,
                limit=failure_limit,
                window_seconds=failure_window_seconds,
                password_limit=password_failure_limit,
                password_window_seconds=password_failure_window_seconds,
            )
        if realms is not None:
            listed = [realm for part in realms.split(",") if (realm := part.strip())]
            tenant = tenants.update_realms(session, actor=domain.actor, tenant_id=tenant_id, realms=listed)
        row = _row(tenant, cells.require_slot(session, tenant_id=tenant_id))
    for risk in list_risks(offer.methods or ()):
        click.echo(f"Note: {risk}", err=True)
    show_one(row, as_json=as_json)


@command.command()
@click.argument("slug")
@json_option
def suspend(slug: str, as_json: bool) -> None:
    """Suspend the tenant SLUG. All its requests are rejected until you resume it."""
    tenant = _change(CommandContext(), slug, tenants.suspend_tenant)
    show_one({"slug": slug, "status": tenant.status}, as_json=as_json)


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
