"""`./admit tenant`."""

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Literal

import click
from sqlalchemy.orm import Session

from cli.commands._tenant_self_test import self_test
from cli.domain import Domain
from cli.fail import Refused, confirm
from cli.output import Row, json_option, show_list, show_one
from nac.cells import service as cells
from nac.clock import utc_now
from nac.errors import InvalidInput
from nac.ids import MspId
from nac.methods import METHODS, TLS_VERSIONS, list_risks, parse_offer
from nac.models import Slot, Tenant
from nac.msps import service as msps
from nac.provisioning import provision_tenant
from nac.tenants import service as tenants
from nac.trials.provisioning import TRIAL_MSP_SLUG as TRIALS


@click.group()
def command() -> None:
    """Tenants: customers, each with ports, secret, certificate authority, policy and data of its own."""


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


def _full_row(domain: Domain, session: Session, tenant: Tenant) -> Row:
    """With what a person types into a switch."""
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
@click.option("--name", default="", help="For people; SLUG where not given.")
@click.option("--msp", metavar="SLUG", help="Whose tenant it is; may be left out where there is one MSP.")
@click.option("--place", default="", metavar="LABEL", help="Of the cell that it goes to.")
@click.option("--standard-policy", is_flag=True, help="What its administrators let in comes in, nothing else.")
@json_option
def create(slug: str, name: str, msp: str | None, place: str, standard_policy: bool, as_json: bool) -> None:
    """Create the tenant SLUG; without a policy at a site of it, it denies everything."""
    domain = Domain()
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
    # Nobody means that of the trials without naming it.
    found = [msp for msp in msps.list_msps(session) if msp.slug != TRIALS]
    if not found:
        raise Refused("There is no MSP yet.", place="msp", remedy="Create one: ./admit msp create SLUG")
    if len(found) > 1:
        raise Refused(
            "There are several MSPs.", place="msp", remedy=f"Say which by --msp: {', '.join(m.slug for m in found)}."
        )
    return found[0].id


@command.command()
@click.argument("slug")
@json_option
def show(slug: str, as_json: bool) -> None:
    """Show the tenant SLUG, its RADIUS secret included."""
    domain = Domain()
    with domain.tenant(slug) as (session, _):
        row = _full_row(domain, session, tenants.require_by_slug(session, slug=slug))
    show_one(row, as_json=as_json)


@command.command("list")
@json_option
def list_(as_json: bool) -> None:
    """List the tenants."""
    with Domain().platform() as session:
        slots = cells.slots_by_tenant(session)
        found = tenants.ORDERS.pages(lambda span: tenants.list_tenants(session, span=span))
        rows = [_row(tenant, slots.get(tenant.id)) for page in found for tenant in page]
    show_list(rows, as_json=as_json)


@command.command("set")
@click.argument("slug")
@click.option("--methods", metavar="LIST", help=f"What devices may log in by, of: {', '.join(METHODS)}.")
@click.option("--tls-versions", metavar="LIST", help=f"Of: {', '.join(TLS_VERSIONS)}.")
@click.option(
    "--replay-days",
    type=click.IntRange(0, tenants.MAX_REPLAY_DAYS),
    help="Replay the requests of so many days before a policy is published, and refuse differences that nobody "
    "acknowledged; 0 asks for no replay.",
)
@click.option(
    "--status-failure",
    type=click.Choice(["soft", "hard"]),
    help="Certificates of authorities that were imported, while no fresh status of them is known: soft admits them, "
    "hard does not.",
)
@click.option(
    "--nat-session-seconds",
    type=int,
    metavar="SECONDS",
    help="Session-Timeout at NASes behind NAT, where sessions cannot be ended otherwise; 0 for none.",
)
@click.option(
    "--silent-reports", type=int, metavar="N", help="A session of which N reports did not come has ended (first: 3)."
)
@click.option(
    "--silent-days", type=int, metavar="N", help="So has one that never sent any and is silent for N days (first: 7)."
)
@click.option("--failure-limit", type=int, metavar="N", help="Failures of one device at one NAS (default 200).")
@click.option(
    "--failure-window-seconds", type=int, metavar="SECONDS", help="Window in which they count, in seconds (default 60)."
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
    help="Window in which they count, in seconds (default 900).",
)
@click.option(
    "--realms",
    metavar="LIST",
    help='Realms and NetBIOS domains to take off user names, such as CORP,corp.example; "" for none.',
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
    """Change settings of the tenant SLUG; what is not given stays.

    PEAP and MS-CHAP of version 1 are offered only where they are asked for: whoever imitates the network can find out
    passwords by them (docs/reference/methods.md).
    """
    silence = (silent_reports, silent_days)
    failures = (failure_limit, failure_window_seconds, password_failure_limit, password_failure_window_seconds)
    others = (methods, tls_versions, replay_days, status_failure, nat_session_seconds, realms)
    if all(given is None for given in (*others, *silence, *failures)):
        raise InvalidInput("There is nothing to set.", remedy="See ./admit tenant set --help.")
    offer = parse_offer(methods=methods, tls_versions=tls_versions)
    domain = Domain()
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
        if any(given is not None for given in failures):
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
    """Admit nothing of the tenant SLUG until it is resumed."""
    tenant = _change(Domain(), slug, tenants.suspend_tenant)
    show_one({"slug": slug, "status": tenant.status}, as_json=as_json)


@command.command()
@click.argument("slug")
@json_option
def resume(slug: str, as_json: bool) -> None:
    """End a suspension, or take a deletion back."""
    tenant = _change(Domain(), slug, tenants.resume_tenant)
    show_one({"slug": slug, "status": tenant.status}, as_json=as_json)


@command.command()
@click.argument("slug")
@click.option("--purge", is_flag=True, help="Remove its data too, for good: certificates, endpoints, users, policies.")
@click.option("--yes", is_flag=True, help="Do not ask before removing data.")
@click.option(
    "--days",
    type=click.IntRange(*msps.DELETION_DAYS),
    help="After which the worker removes it, a file of all of it written before; without them it stays until --purge.",
)
@json_option
def delete(slug: str, purge: bool, yes: bool, days: int | None, as_json: bool) -> None:
    """Stop the tenant SLUG at once; with --purge remove it and its data."""
    domain = Domain()
    if purge and not yes:
        confirm(f"Remove tenant {slug} with all its data?")
    purge_at = utc_now() + timedelta(days=days) if days else None
    tenant = _change(domain, slug, partial(tenants.delete_tenant, purge_at=purge_at))
    if purge:
        with domain.platform() as session:
            tenants.purge_tenant(session, actor=domain.actor, tenant_id=tenant.id)
    show_one({"slug": slug, "status": "purged" if purge else tenant.status}, as_json=as_json)


def _change(domain: Domain, slug: str, service: Callable[..., Tenant]) -> Tenant:
    with domain.change(slug) as (session, tenant_id):
        return service(session, actor=domain.actor, tenant_id=tenant_id)
