"""Commands of `./admit tenant` that call several operations of the API, and `./admit tenant delete`."""

from datetime import timedelta
from typing import Any
from uuid import UUID

import click

from cli.errors import Refused, confirm
from cli.output import json_option, show_one
from cli.remote.client import ApiClient
from cli.remote.commands import call_operation, list_items
from cli.remote.local_api import connect
from cli.remote.results import show_result
from nac.kit.clock import utc_now
from nac.kit.ids import MspId

# `nac.onboarding.trials` creates this MSP for sign-ups. This MSP is never the default.
_TRIALS = "trials"
_MAX_DELETION_DAYS = 365


@click.group()
def command() -> None:
    """Manage tenants: customers with their own ports, secret, certificate authorities, policies and data."""


@command.command()
@click.argument("slug")
@click.option("--name", help="Display name of the tenant (default SLUG).")
@click.option("--msp", metavar="SLUG", help="Slug of the tenant's MSP (default the only MSP).")
@click.option("--place", metavar="LABEL", help="Label of the tenant's cell (default any label).")
@click.option(
    "--policy",
    type=click.Choice(("standard", "none")),
    default="standard",
    show_default=True,
    help="Initial policy of the tenant: admit only approved devices and users (standard), or deny everything (none).",
)
@json_option
def create(slug: str, name: str | None, msp: str | None, place: str | None, policy: str, as_json: bool) -> None:
    """Create the tenant SLUG, and show the tenant with the RADIUS secret."""
    api = connect()
    msp_id = str(require_msp(api, msp))
    call_operation(api, "create-tenant", slug=slug, name=name, msp=msp_id, place=place, policy=policy)
    _show_with_secret(api, slug, as_json=as_json)


def require_msp(api: ApiClient, slug: str | None) -> MspId:
    """Return the id of the MSP. Without a slug, returns the id of the only MSP."""
    if slug is not None:
        return MspId(UUID(call_operation(api, "get-msp", msp=slug)["id"]))
    found = [msp for msp in list_items(api, "list-msps") if msp["slug"] != _TRIALS]
    if not found:
        raise Refused("No MSP exists.", place="msp", remedy="Create an MSP: ./admit msp create SLUG")
    if len(found) > 1:
        slugs = ", ".join(msp["slug"] for msp in found)
        raise Refused("Several MSPs exist.", place="msp", remedy=f"Use --msp with one of: {slugs}.")
    return MspId(UUID(found[0]["id"]))


@command.command()
@click.argument("slug")
@json_option
def show(slug: str, as_json: bool) -> None:
    """Show the tenant SLUG, including the RADIUS secret. The audit log records that you viewed the secret."""
    _show_with_secret(connect(), slug, as_json=as_json)


def _show_with_secret(api: ApiClient, slug: str, *, as_json: bool) -> None:
    tenant: dict[str, Any] = call_operation(api, "get-tenant", tenant=slug)
    secret = call_operation(api, "reveal-radius-secret", tenant=slug, wait=None)["secret"]
    show_result(tenant | {"radius_secret": secret}, as_json=as_json)


@command.command()
@click.argument("slug")
@json_option
def resume(slug: str, as_json: bool) -> None:
    """Resume a suspended tenant or restore a deleted tenant."""
    api = connect()
    deleted = list_items(api, "list-discovered-tenants", text=slug, status=["deleting"])
    tenant = next((each for each in deleted if each["slug"] == slug), None)
    if tenant is None:
        resumed = call_operation(api, "resume-tenant", tenant=slug)
    else:
        resumed = call_operation(api, "restore-tenant", msp=tenant["msp_id"], tenant=slug)
    show_result(resumed, as_json=as_json)


@command.command()
@click.argument("slug")
@click.option(
    "--purge", is_flag=True, help="Also delete the tenant's data permanently: certificates, endpoints, users, policies."
)
@click.option("--yes", is_flag=True, help="Skip the confirmation.")
@click.option(
    "--days",
    type=click.IntRange(1, _MAX_DELETION_DAYS),
    help="Days until the worker writes a tenant file and purges the tenant (default: only --purge deletes the data).",
)
@json_option
def delete(slug: str, purge: bool, yes: bool, days: int | None, as_json: bool) -> None:
    """Delete the tenant SLUG: the tenant's service stops immediately. With --purge, also delete the tenant's data."""
    # Imported here because they load the database libraries. The API neither purges immediately nor keeps data forever.
    from cli.command_context import CommandContext
    from nac.onboarding.tenant_purge import purge_tenant
    from nac.tenancy.tenants.service import delete_tenant

    domain = CommandContext()
    if purge and not yes:
        confirm(f"Delete tenant {slug} with all its data?")
    purge_at = utc_now() + timedelta(days=days) if days else None
    with domain.change(slug) as (session, tenant_id):
        status = delete_tenant(session, actor=domain.actor, tenant_id=tenant_id, purge_at=purge_at).status
    if purge:
        with domain.platform() as session:
            purge_tenant(session, actor=domain.actor, tenant_id=tenant_id)
    show_one({"slug": slug, "status": "purged" if purge else status}, as_json=as_json)
