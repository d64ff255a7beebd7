"""`./admit user`."""

from collections.abc import Sequence
from datetime import datetime

import click
from sqlalchemy.orm import Session

from cli.domain import Domain
from cli.moments import valid_until_option
from cli.output import Row, json_option, pages, show_list, show_one, tenant_option
from cli.verbs import add_verb
from nac.groups import USER_GROUPS
from nac.ids import TenantId
from nac.models import User
from nac.users import service as users

_NT_HASH = "Store an NT hash too, sealed; who has it can log in as the user, and finds most passwords by trying."


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
            "mschap": user.nt_hash_sealed is not None,
            "valid_until": user.valid_until and user.valid_until.isoformat(),
        }
        for user in found
    ]


def _row(session: Session, tenant_id: TenantId, user: User) -> Row:
    return _rows(session, tenant_id, [user])[0]


@command.command()
@click.argument("name")
@tenant_option
@click.password_option(help="Asked for where not given.")
@click.option("--group", "groups", multiple=True, help="A group the user is in; may be repeated.")
@click.option("--chap", is_flag=True, help="Store the password itself too, sealed: CHAP cannot do without it.")
@click.option("--allow-mschap", "mschap", is_flag=True, help=f"{_NT_HASH} MS-CHAP and PEAP cannot do without it.")
@valid_until_option("When the user ends (UTC).")
@json_option
def add(
    name: str,
    tenant: str,
    password: str,
    groups: tuple[str, ...],
    chap: bool,
    mschap: bool,
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
            valid_until=valid_until,
            seal_for_chap=domain.sealer.seal if chap else None,
            seal_for_mschap=domain.sealer.seal if mschap else None,
        )
        row = _row(session, tenant_id, user)
    show_one(row, as_json=as_json)


add_verb(command, "remove", users.remove_user, key="name", help="Remove the user NAME.")
add_verb(
    command, "block", users.disable_user, key="name", help="Reject the user NAME whatever the rules say.", row=_row
)
add_verb(
    command,
    "unblock",
    users.enable_user,
    key="name",
    help="Let the rules decide about the user NAME again.",
    row=_row,
)


@command.command()
@click.argument("name")
@tenant_option
@click.password_option(help="The new one; asked for where not given.")
@click.option("--chap/--no-chap", default=None, help="Whether CHAP can use it; as it was where not given.")
@click.option("--mschap/--no-mschap", default=None, help="Whether MS-CHAP and PEAP can; as it was where not given.")
@json_option
def password(name: str, tenant: str, password: str, chap: bool | None, mschap: bool | None, as_json: bool) -> None:
    """Change the password of the user NAME."""
    domain = Domain()
    with domain.change(tenant) as (session, tenant_id):
        user = users.change_password(
            session,
            actor=domain.actor,
            tenant_id=tenant_id,
            name=name,
            password=password,
            seal=domain.sealer.seal,
            chap=chap,
            mschap=mschap,
        )
        row = _row(session, tenant_id, user)
    show_one(row, as_json=as_json)


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
