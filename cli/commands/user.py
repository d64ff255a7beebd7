"""`./admit user`."""

from collections.abc import Sequence
from datetime import UTC, datetime

import click
from sqlalchemy.orm import Session

from cli.domain import Domain
from cli.output import Row, json_option, pages, show_list, show_one, tenant_option
from nac.groups import USER_GROUPS
from nac.ids import TenantId
from nac.models import User
from nac.users import service as users


@click.group()
def command() -> None:
    """Users of a tenant: names with a password."""


def _rows(session: Session, tenant_id: TenantId, found: Sequence[User]) -> list[Row]:
    groups = USER_GROUPS.names_of(session, tenant_id=tenant_id, member_ids=[user.id for user in found])
    return [
        {
            "name": user.name,
            "disabled": user.disabled,
            "groups": groups.get(user.id, ()),
            "chap": user.password_sealed is not None,
            "valid_until": user.valid_until and user.valid_until.isoformat(),
        }
        for user in found
    ]


@command.command()
@click.argument("name")
@tenant_option
@click.password_option(help="Asked for where not given.")
@click.option("--group", "groups", multiple=True, help="A group the user is in; may be repeated.")
@click.option("--chap", is_flag=True, help="Store the password itself too, sealed: CHAP cannot do without it.")
@click.option("--valid-until", type=click.DateTime(), help="When the user ends (UTC).")
@json_option
def add(
    name: str,
    tenant: str,
    password: str,
    groups: tuple[str, ...],
    chap: bool,
    valid_until: datetime | None,
    as_json: bool,
) -> None:
    """Add the user NAME."""
    domain = Domain()
    with domain.change(tenant) as (session, tenant_id):
        user = users.create_user(
            session,
            actor=domain.actor,
            tenant_id=tenant_id,
            name=name,
            password=password,
            groups=groups,
            valid_until=valid_until and valid_until.replace(tzinfo=UTC),
            seal_for_chap=domain.sealer.seal if chap else None,
        )
        row = _rows(session, tenant_id, [user])[0]
    show_one(row, as_json=as_json)


@command.command()
@click.argument("name")
@tenant_option
@json_option
def remove(name: str, tenant: str, as_json: bool) -> None:
    """Remove the user NAME."""
    domain = Domain()
    with domain.change(tenant) as (session, tenant_id):
        users.remove_user(session, actor=domain.actor, tenant_id=tenant_id, name=name)
    show_one({"removed": name}, as_json=as_json)


@command.command("list")
@tenant_option
@json_option
def list_(tenant: str, as_json: bool) -> None:
    """List the users by name."""
    with Domain().tenant(tenant) as (session, tenant_id):
        found = pages(
            lambda after: users.list_users(session, tenant_id=tenant_id, after_name=after),
            lambda user: user.name,
            first="",
        )
        rows = [row for page in found for row in _rows(session, tenant_id, page)]
    show_list(rows, as_json=as_json)
