"""`./admit token`."""

from datetime import timedelta
from typing import Any
from uuid import UUID

import click

from cli.command_context import CommandContext
from cli.output import Row, json_option, show_list, show_one
from cli.owners import owner_options, owner_scope
from nac.accounts.api_tokens import service as tokens
from nac.accounts.api_tokens.token_text import TokenText
from nac.accounts.roles import BUILT_IN_ROLES
from nac.core.access.owners import Owner
from nac.core.access.permissions import Permission, permissions_at
from nac.kit.clock import utc_now
from nac.kit.errors import InvalidInput
from nac.models import ApiToken


@click.group()
def command() -> None:
    """Manage API tokens of a tenant, an MSP or, by default, the platform."""


def _row(row: ApiToken) -> Row:
    return {
        "name": row.name,
        "prefix": f"{TokenText.prefix}{row.public_id}",
        "permissions": row.permissions,
        "expires_at": row.expires_at,
        "revoked_at": row.revoked_at,
        "last_used_at": row.last_used_at,
        "maker": row.maker,
        "id": row.id,
    }


@command.command()
@click.argument("name")
@owner_options
@click.option("--role", help="Role whose permissions the token gets, such as auditor.")
@click.option(
    "--permission", "permissions", multiple=True, help="Permission of the token, such as session.read; repeatable."
)
@click.option("--days", type=click.IntRange(1, tokens.MAX_LIFETIME.days), default=90, show_default=True)
@json_option
def make(as_json: bool, name: str, days: int, permissions: tuple[str, ...], role: str | None, **owner: Any) -> None:  # noqa: ANN401
    """Create the token NAME with --role, --permission or both. It is displayed only once."""
    domain = CommandContext()
    with owner_scope(domain, **owner) as (session, of):
        made = tokens.create_token(
            session,
            actor=domain.actor,
            # A user with a shell on the server has all permissions.
            held=permissions_at(of.level),
            owner=of,
            name=name,
            permissions=[*permissions, *_of_role(role, of)],
            expires_at=utc_now() + timedelta(days=days),
        )
        row = _row(made.row)
    show_one({**row, "token": made.text}, as_json=as_json)


def _of_role(slug: str | None, owner: Owner) -> frozenset[Permission]:
    here = {role.slug: role for role in BUILT_IN_ROLES.values() if owner.level in role.levels}
    if slug is None:
        return frozenset()
    if slug not in here:
        raise InvalidInput(f"Unknown role {slug!r}.", place="--role", remedy=f"Use one of: {', '.join(here)}.")
    return here[slug].at(owner.level)


@command.command("list")
@owner_options
@json_option
def list_(as_json: bool, **owner: Any) -> None:  # noqa: ANN401
    """List tokens, including expired and revoked ones."""
    with owner_scope(CommandContext(), **owner) as (session, of):
        pages = tokens.ORDERS.pages(lambda span: tokens.list_tokens(session, owner=of, span=span))
        rows = [_row(row) for page in pages for row in page]
    show_list(rows, as_json=as_json)


@command.command()
@click.argument("token_id", metavar="ID", type=click.UUID)
@owner_options
@json_option
def revoke(token_id: UUID, as_json: bool, **owner: Any) -> None:  # noqa: ANN401
    """Revoke the token ID."""
    domain = CommandContext()
    with owner_scope(domain, **owner) as (session, of):
        row = _row(
            tokens.revoke_token(session, actor=domain.actor, held=permissions_at(of.level), owner=of, token_id=token_id)
        )
    show_one(row, as_json=as_json)
