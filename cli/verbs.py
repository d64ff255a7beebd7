"""Commands that do one thing to one thing of a tenant: block an endpoint, remove a site."""

from collections.abc import Callable
from typing import Any

import click
from sqlalchemy.orm import Session

from cli.domain import Domain
from cli.output import Row, json_option, show_one, tenant_option
from nac.ids import TenantId


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
    """The command VERB KEY, which calls `service` with KEY under the name `key` and waits until the cell knows.

    It prints the `row` of what the service returns; without `row` the thing is gone and KEY is all that is left of it.
    `of_radiusd` as in `Domain.change`.
    """

    @group.command(verb, help=help)
    @click.argument(key, metavar=metavar)
    @tenant_option
    @json_option
    def command(tenant: str, as_json: bool, **given: str) -> None:
        domain = Domain()
        with domain.change(tenant, of_radiusd=of_radiusd) as (session, tenant_id):
            found = service(session, actor=domain.actor, tenant_id=tenant_id, **given)
            shown = row(session, tenant_id, found) if row else {"removed": given[key]}
        show_one(shown, as_json=as_json)
