"""`./admit token create`."""

from datetime import timedelta

import click

from cli.output import json_option, show_one
from cli.remote.commands import call_operation
from cli.remote.local_api import connect
from nac.accounts.roles import BUILT_IN_ROLES
from nac.kit.clock import utc_now
from nac.kit.errors import InvalidInput
from nac.kit.permissions import Permission, PermissionLevel


@click.group()
def command() -> None:
    """Manage API tokens of a tenant, an MSP or, by default, the platform."""


@command.command()
@click.argument("name")
@click.option("--tenant", "-t", metavar="SLUG", help="Slug of the token's tenant.")
@click.option(
    "--msp", metavar="SLUG", help="Slug of the token's MSP. The token is also valid for the tenants of the MSP."
)
@click.option("--role", help="Role whose permissions the token gets, such as auditor.")
@click.option(
    "--permission", "permissions", multiple=True, help="Permission of the token, such as session.read; repeatable."
)
@click.option(
    "--days", type=click.IntRange(min=1), default=90, show_default=True, help="Lifetime of the token in days."
)
@json_option
def create(
    name: str,
    tenant: str | None,
    msp: str | None,
    role: str | None,
    permissions: tuple[str, ...],
    days: int,
    as_json: bool,
) -> None:
    """Create the token NAME with --role, --permission or both options. Admit displays the token only once."""
    if tenant and msp:
        raise InvalidInput(
            "--tenant and --msp cannot be combined.", place="--msp", remedy="Use only --tenant or only --msp."
        )
    if not (role or permissions):
        raise InvalidInput(
            "The new token has no role and no permission.",
            place="--role",
            remedy="Set --role, such as --role auditor, or --permission, such as --permission endpoint.read.",
        )
    level, operation, owner = PermissionLevel.PLATFORM, "create-platform-token", {}
    if tenant:
        level, operation, owner = PermissionLevel.TENANT, "create-tenant-token", {"tenant": tenant}
    elif msp:
        level, operation, owner = PermissionLevel.MSP, "create-msp-token", {"msp": msp}
    made = call_operation(
        connect(),
        operation,
        **owner,
        name=name,
        permissions=[*permissions, *_list_permissions(role, level)],
        expires_at=(utc_now() + timedelta(days=days)).isoformat(),
    )
    show_one(made, as_json=as_json)


def _list_permissions(slug: str | None, level: PermissionLevel) -> list[Permission]:
    if slug is None:
        return []
    here = {role.slug: role for role in BUILT_IN_ROLES.values() if level in role.levels}
    if slug not in here:
        raise InvalidInput(f"Unknown role {slug!r}.", place="--role", remedy=f"Use one of: {', '.join(here)}.")
    return sorted(here[slug].at(level))
