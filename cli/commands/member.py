"""`./admit member`."""

from uuid import UUID

import click

from cli.command_context import CommandContext
from cli.output import Row, json_option, show_list, show_one
from cli.owners import owner_options, owner_scope
from nac.accounts.account_mails import service as account_mails
from nac.accounts.members import service as members
from nac.accounts.members.service import Member
from nac.core.access.permissions import permissions_at


@click.group()
def command() -> None:
    """Manage members and their roles on a tenant, an MSP or, by default, the platform."""


def _row(member: Member) -> Row:
    return {
        "email": member.person.email,
        "role": member.role,
        "tenants": None if member.chosen is None else sorted(map(str, member.chosen)),
        "id": member.membership.id,
    }


@command.command()
@click.argument("email")
@owner_options
@click.option("--role", required=True, help="Role, such as msp-admin, tenant-admin or help-desk.")
@click.option(
    "--of-tenant",
    "chosen",
    multiple=True,
    metavar="SLUG",
    help="Tenant of the MSP that the role is limited to; repeatable.",
)
@click.option("--invite", is_flag=True, help="Send an invitation by mail.")
@json_option
def add(
    email: str, tenant: str | None, msp: str | None, role: str, chosen: tuple[str, ...], invite: bool, as_json: bool
) -> None:
    """Create a member. A new person sets a password with --invite or `./admit person add`."""
    domain = CommandContext()
    with owner_scope(domain, tenant=tenant, msp=msp) as (session, owner):
        row = _row(
            members.create_member(
                session,
                actor=domain.actor,
                # A user with a shell on the server has all permissions.
                held=permissions_at(owner.level),
                owner=owner,
                email=email,
                role=role,
                tenants=chosen or None,
            )
        )
        if invite:
            account_mails.queue_invitation(session, actor=domain.actor, owner=owner, email=email)
    show_one(row, as_json=as_json)


@command.command("list")
@owner_options
@json_option
def list_(tenant: str | None, msp: str | None, as_json: bool) -> None:
    """List members."""
    with owner_scope(CommandContext(), tenant=tenant, msp=msp) as (session, owner):
        pages = members.ORDERS.pages(
            lambda span: members.list_members(session, owner=owner, span=span), lambda row: row.membership
        )
        rows = [_row(member) for page in pages for member in page]
    show_list(rows, as_json=as_json)


@command.command()
@click.argument("member_id", metavar="ID", type=click.UUID)
@owner_options
@json_option
def remove(member_id: UUID, tenant: str | None, msp: str | None, as_json: bool) -> None:
    """Delete the membership ID. The account stays."""
    domain = CommandContext()
    with owner_scope(domain, tenant=tenant, msp=msp) as (session, owner):
        held = permissions_at(owner.level)
        members.delete_member(session, actor=domain.actor, held=held, owner=owner, membership_id=member_id)
    show_one({"removed": member_id}, as_json=as_json)
