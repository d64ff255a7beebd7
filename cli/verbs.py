"""Commands with one action on one object of a tenant, such as blocking an endpoint or deleting a site."""

from collections.abc import Callable
from typing import Any

import click
from sqlalchemy.orm import Session

from cli.command_context import CommandContext
from cli.output import Row, json_option, show_one, tenant_option
from nac.kit.ids import TenantId


def add_verb(
    group: click.Group,
    verb: str,
    service: Callable[..., Any],
    *,
    key: str,
    help: str,  # noqa: A002 -- click's own word for it
    row: Callable[[Session, TenantId, Any], Row] | None = None,
    metavar: str | None = None,
    of_radiusd: bool = False,
) -> None:
    """Add the command VERB KEY. It calls `service` with KEY as the argument `key`, and waits for the cell.

    Prints the `row` of the returned object, or KEY without `row`, after a deletion. `of_radiusd` as in `Domain.change`.
    """

    @group.command(verb, help=help)
    @click.argument(key, metavar=metavar)
    @tenant_option
    @json_option
    def command(tenant: str, as_json: bool, **arguments: str) -> None:
        domain = CommandContext()
        with domain.change(tenant, of_radiusd=of_radiusd) as (session, tenant_id):
            changed = service(session, actor=domain.actor, tenant_id=tenant_id, **arguments)
            rendered = row(session, tenant_id, changed) if row else {"removed": arguments[key]}
        show_one(rendered, as_json=as_json)
