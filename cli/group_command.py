"""Shared command of `./admit endpoint-group` and `./admit user-group`."""

from typing import Any

import click

from cli.command_context import CommandContext
from cli.output import json_option, show_list, show_one, tenant_option
from cli.verbs import add_verb
from nac.inventory.groups import Groups


def group_command(groups: Groups[Any], *, members: str) -> click.Group:
    @click.group(help=f"Manage groups of {members}, which policies refer to by name.")
    def command() -> None:
        pass

    @command.command()
    @click.argument("name")
    @tenant_option
    @json_option
    def add(name: str, tenant: str, as_json: bool) -> None:
        """Create the group NAME."""
        domain = CommandContext()
        with domain.tenant(tenant) as (session, tenant_id):
            group = groups.create(session, actor=domain.actor, tenant_id=tenant_id, name=name)
            row = {"name": group.name, "id": group.id}
        show_one(row, as_json=as_json)

    @command.command()
    @click.argument("name")
    @click.argument("new_name")
    @tenant_option
    @json_option
    def rename(name: str, new_name: str, tenant: str, as_json: bool) -> None:
        """Rename the group NAME to NEW_NAME. No policy may refer to it."""
        domain = CommandContext()
        with domain.change(tenant) as (session, tenant_id):
            who: dict[str, Any] = {"actor": domain.actor, "tenant_id": tenant_id}
            group = groups.rename(session, **who, name=name, new_name=new_name)
            row = {"name": group.name, "id": group.id}
        show_one(row, as_json=as_json)

    add_verb(command, "remove", groups.remove, key="name", help="Delete the group NAME. Its members stay.")

    @command.command("list")
    @tenant_option
    @json_option
    def list_(tenant: str, as_json: bool) -> None:
        """List groups."""
        with CommandContext().tenant(tenant) as (session, tenant_id):
            rows = [{"name": group.name, "id": group.id} for group in groups.list_all(session, tenant_id=tenant_id)]
        show_list(rows, as_json=as_json)

    return command
