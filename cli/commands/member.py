"""`./admit member`."""

from uuid import UUID

import click

from cli.domain import Domain
from cli.output import Row, json_option, show_list, show_one
from cli.owners import owner_options, owner_scope
from nac.account_mails import service as account_mails
from nac.accounts.permissions import permissions_at
from nac.members import service as members
from nac.members.service import Member


@click.group()
def command() -> None:
    """Who has which role on a tenant, on an MSP, or, with neither, on the platform."""


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
@click.option("--role", required=True, help="Such as msp-admin, tenant-admin or help-desk.")
@click.option("--of-tenant", "chosen", multiple=True, metavar="SLUG", help="Of the MSP's tenants this one; repeatable.")
@click.option("--invite", is_flag=True, help="Send a mail that says how to sign in.")
@json_option
def add(
    email: str, tenant: str | None, msp: str | None, role: str, chosen: tuple[str, ...], invite: bool, as_json: bool
) -> None:
    """Make EMAIL a member; --invite or `./admit person add` gives it a first password."""
    domain = Domain()
    with owner_scope(domain, tenant=tenant, msp=msp) as (session, owner):
        row = _row(
            members.create_member(
                session,
                actor=domain.actor,
                # Whoever has a shell on the server has everything.
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
    with owner_scope(Domain(), tenant=tenant, msp=msp) as (session, owner):
        found = members.ORDERS.pages(
            lambda span: members.list_members(session, owner=owner, span=span), lambda row: row.membership
        )
        rows = [_row(member) for page in found for member in page]
    show_list(rows, as_json=as_json)


@command.command()
@click.argument("member_id", metavar="ID", type=click.UUID)
@owner_options
@json_option
def remove(member_id: UUID, tenant: str | None, msp: str | None, as_json: bool) -> None:
    """Take the membership ID back; the account stays."""
    domain = Domain()
    with owner_scope(domain, tenant=tenant, msp=msp) as (session, owner):
        held = permissions_at(owner.level)
        members.delete_member(session, actor=domain.actor, held=held, owner=owner, membership_id=member_id)
    show_one({"removed": member_id}, as_json=as_json)
