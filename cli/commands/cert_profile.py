"""`./admit cert-profile`."""

import click

from cli.command_context import CommandContext
from cli.output import Row, json_option, show_list, show_one, tenant_option
from nac.certificates import profiles
from pki.keys import KEY_KINDS
from pki.profiles import CertificateProfile


@click.group()
def command() -> None:
    """Manage a tenant's certificate profiles: validity and kind of key."""


def _row(profile: CertificateProfile) -> Row:
    return {
        "name": profile.name,
        "validity_days": profile.validity.days,
        "most_days": profile.validity_most.days,
        "key": profile.key,
        "usages": list(profile.extended_key_usage),
    }


@command.command("list")
@tenant_option
@json_option
def list_(tenant: str, as_json: bool) -> None:
    """List the profiles."""
    with CommandContext().tenant(tenant) as (session, tenant_id):
        rows = [_row(profile) for profile in profiles.list_profiles(session, tenant_id=tenant_id)]
    show_list(rows, as_json=as_json)


@command.command("set")
@click.argument("name")
@tenant_option
@click.option("--validity-days", type=int, help="Validity in days of new certificates.")
@click.option("--key", type=click.Choice(KEY_KINDS), help="Kind of keys that Admit generates.")
@json_option
def set_(name: str, tenant: str, validity_days: int | None, key: str | None, as_json: bool) -> None:
    """Update the profile NAME. Omitted settings return to the built-in values. Issued certificates do not change."""
    choice = {"validity_days": validity_days, "key": key}
    domain = CommandContext()
    with domain.tenant(tenant) as (session, tenant_id):
        chosen = profiles.update_profile(
            session,
            actor=domain.actor,
            tenant_id=tenant_id,
            name=name,
            choice={field: value for field, value in choice.items() if value is not None},
        )
    show_one(_row(chosen), as_json=as_json)
