"""`./admit user`."""

from collections.abc import Sequence
from datetime import datetime
from typing import TextIO

import click
from sqlalchemy.orm import Session

from cli.command_context import CommandContext
from cli.errors import require_utf8
from cli.mistakes import report_row_mistakes
from cli.output import Row, json_option, show_list, show_one, tenant_option
from cli.time_options import valid_until_option
from cli.verbs import add_verb
from nac.inventory.groups import USER_GROUPS
from nac.inventory.users import service as users
from nac.kit.ids import TenantId
from nac.models import User
from nac.onboarding.imports import user_file

_NT_HASH = "Also store an encrypted NT hash. It allows logins as the user, and most passwords can be recovered from it."
password_option = click.option("--password", help="Password (default: prompt).")
password_file_option = click.option(
    "--password-file",
    type=click.File(encoding="utf-8"),
    help='File whose first line is the password; "-": standard input.',
)


@click.group()
def command() -> None:
    """Manage users of a tenant: names with a password."""


def _rows(session: Session, tenant_id: TenantId, user_list: Sequence[User]) -> list[Row]:
    groups = USER_GROUPS.names_of(session, tenant_id=tenant_id, member_ids=[user.id for user in user_list])
    return [
        {
            "name": user.name,
            "disabled": user.disabled,
            "groups": groups.get(user.id, ()),
            "chap": user.password_sealed is not None,
            "mschap": user.nt_hash_sealed is not None,
            "valid_until": user.valid_until and user.valid_until.isoformat(),
        }
        for user in user_list
    ]


def _row(session: Session, tenant_id: TenantId, user: User) -> Row:
    return _rows(session, tenant_id, [user])[0]


def first_line(file: TextIO | None) -> str | None:
    """First line of a file that contains a secret."""
    if file is None:
        return None
    with require_utf8(file.name):
        return file.readline().rstrip("\r\n")


def _password(option: str | None, file: TextIO | None) -> str:
    read = first_line(file)
    if read is not None:
        return read
    if option is not None:
        return option
    typed: str = click.prompt("Password", hide_input=True, confirmation_prompt=True)
    return typed


@command.command()
@click.argument("name", required=False)
@tenant_option
@password_option
@password_file_option
@click.option("--group", "groups", multiple=True, help="Group of the user; repeatable.")
@click.option(
    "--allow-chap", "--chap", "chap", is_flag=True, help="Also store the encrypted password, which CHAP needs."
)
@click.option("--allow-mschap", "mschap", is_flag=True, help=f"{_NT_HASH} MS-CHAP and PEAP need it.")
@valid_until_option("End of the user's validity (UTC).")
@click.option(
    "--import",
    "import_file",
    type=click.File(encoding="utf-8"),
    help="CSV file to import: name, password, groups, valid_until, disabled. If a line is "
    "invalid, nothing is imported.",
)
@json_option
def add(
    name: str | None,
    tenant: str,
    password: str | None,
    password_file: TextIO | None,
    groups: tuple[str, ...],
    chap: bool,
    mschap: bool,
    valid_until: datetime | None,
    import_file: TextIO | None,
    as_json: bool,
) -> None:
    """Create the user NAME, or many users with --import."""
    if (name is None) == (import_file is None):
        raise click.UsageError("Use either NAME or --import FILE.")
    domain = CommandContext()
    if import_file is not None:
        if password or password_file or groups or valid_until:
            raise click.UsageError(
                "--import takes passwords, groups and ends only from the file. Omit the other options."
            )
        with require_utf8(import_file.name):
            content = import_file.read()
        _import(domain, tenant, content, chap=chap, mschap=mschap, as_json=as_json)
        return
    chosen = _password(password, password_file)
    with domain.change(tenant) as (session, tenant_id):
        user = users.create_user(
            session,
            actor=domain.actor,
            tenant_id=tenant_id,
            name=str(name),
            password=chosen,
            groups=groups,
            valid_until=valid_until,
            seal_for_chap=domain.sealer.seal if chap else None,
            seal_for_mschap=domain.sealer.seal if mschap else None,
        )
        row = _row(session, tenant_id, user)
    show_one(row, as_json=as_json)


def _import(domain: CommandContext, tenant: str, content: str, *, chap: bool, mschap: bool, as_json: bool) -> None:
    refused = report_row_mistakes(user_file.InvalidUserFile, as_json=as_json)
    with refused, domain.change(tenant) as (session, tenant_id):
        count = user_file.import_users(
            session,
            actor=domain.actor,
            tenant_id=tenant_id,
            content=content,
            seal=domain.sealer.seal,
            chap=chap,
            mschap=mschap,
        )
    show_one({"added": count}, as_json=as_json)


@command.command("set")
@click.argument("name")
@tenant_option
@click.option("--group", "groups", multiple=True, help="Group that replaces the current groups; repeatable.")
@click.option("--no-groups", is_flag=True, help="Remove the user from all groups.")
@valid_until_option("End of the user's validity (UTC).")
@click.option("--no-end", is_flag=True, help="Remove the end of the user's validity.")
@click.option("--disable/--enable", "disabled", default=None, help="Whether the user is rejected in any policy.")
@json_option
def set_(
    name: str,
    tenant: str,
    groups: tuple[str, ...],
    no_groups: bool,
    valid_until: datetime | None,
    no_end: bool,
    disabled: bool | None,
    as_json: bool,
) -> None:
    """Update the user NAME: groups, end of validity, enabled or disabled."""
    if (groups and no_groups) or (valid_until and no_end):
        raise click.UsageError("Opposite options exclude each other.")
    if not (groups or no_groups or valid_until or no_end) and disabled is None:
        raise click.UsageError("No setting to change. Use --group, --until, --disable or --enable.")
    domain = CommandContext()
    with domain.change(tenant) as (session, tenant_id):
        user = users.update_user(
            session,
            actor=domain.actor,
            tenant_id=tenant_id,
            name=name,
            groups=groups if groups or no_groups else None,
            valid_until=valid_until if valid_until or no_end else users.Unchanged.AS_IT_IS,
            disabled=disabled,
        )
        row = _row(session, tenant_id, user)
    show_one(row, as_json=as_json)


add_verb(command, "remove", users.delete_user, key="name", help="Delete the user NAME.")
add_verb(
    command,
    "block",
    users.disable_user,
    key="name",
    help="Block the user NAME, so that any policy rejects it.",
    row=_row,
)
add_verb(
    command,
    "unblock",
    users.enable_user,
    key="name",
    help="Unblock the user NAME, so that policies decide about it again.",
    row=_row,
)


@command.command()
@click.argument("name")
@tenant_option
@password_option
@password_file_option
@click.option(
    "--allow-chap/--no-allow-chap",
    "--chap/--no-chap",
    "chap",
    default=None,
    help="Whether CHAP can use it (default unchanged).",
)
@click.option(
    "--allow-mschap/--no-allow-mschap",
    "--mschap/--no-mschap",
    "mschap",
    default=None,
    help="Whether MS-CHAP and PEAP can use it (default unchanged).",
)
@json_option
def password(
    name: str,
    tenant: str,
    password: str | None,
    password_file: TextIO | None,
    chap: bool | None,
    mschap: bool | None,
    as_json: bool,
) -> None:
    """Set a new password for the user NAME."""
    domain = CommandContext()
    chosen = _password(password, password_file)
    with domain.change(tenant) as (session, tenant_id):
        user = users.update_password(
            session,
            actor=domain.actor,
            tenant_id=tenant_id,
            name=name,
            password=chosen,
            seal=domain.sealer.seal,
            chap=chap,
            mschap=mschap,
        )
        row = _row(session, tenant_id, user)
    show_one(row, as_json=as_json)


@command.command()
@click.argument("name")
@tenant_option
@json_option
def show(name: str, tenant: str, as_json: bool) -> None:
    """Show the user NAME."""
    with CommandContext().tenant(tenant) as (session, tenant_id):
        row = _row(session, tenant_id, users.require_by_name(session, tenant_id=tenant_id, name=name))
    show_one(row, as_json=as_json)


@command.command("list")
@tenant_option
@json_option
def list_(tenant: str, as_json: bool) -> None:
    """List users by name."""
    with CommandContext().tenant(tenant) as (session, tenant_id):
        pages = users.ORDERS.pages(lambda span: users.list_users(session, tenant_id=tenant_id, span=span))
        rows = [row for page in pages for row in _rows(session, tenant_id, page)]
    show_list(rows, as_json=as_json)
