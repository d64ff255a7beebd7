"""`./admit coa`."""

from collections.abc import Sequence
from itertools import chain, islice
from typing import TypedDict, Unpack

import click

from cli.command_context import CommandContext
from cli.commands._coa_rows import coa_row, short_coa_row
from cli.output import ROW_ID, json_option, show_list, show_one, tenant_option
from nac.kit.db.sort_orders import PageSpan
from nac.models import CoaRequest
from nac.models.coa_request import COA_STATES
from nac.sessions.coa_requests import service as coa_requests

_PAGE = 500


class _Criteria(TypedDict):
    states: tuple[str, ...]
    row: int | None
    mac: str
    user: str
    nas: str
    reason: str
    redecision: int | None


@click.group()
def command() -> None:
    """Manage requests to NASes about live sessions (RFC 5176)."""


@command.command("list")
@tenant_option
@click.option(
    "--state", "states", type=click.Choice(COA_STATES), multiple=True, help="State of the requests; repeatable."
)
@click.option("--session", "row", metavar="ID", type=ROW_ID, help="Session, by its id from session list.")
@click.option("--mac", default="", help="MAC address of the device, in any notation.")
@click.option("--user", metavar="NAME", default="", help="User name.")
@click.option("--nas", metavar="NAS", default="", help="NAS, by identifier, address or name.")
@click.option("--reason", default="", help="Reason, such as requested, redecided or endpoint-blocked.")
@click.option(
    "--redecision",
    metavar="ID",
    type=ROW_ID,
    help="Re-decision that caused the requests, by its id from redecide list.",
)
@click.option("--limit", type=click.IntRange(min=1), default=100, show_default=True, help="Maximum number of requests.")
@json_option
def list_command(tenant: str, limit: int, as_json: bool, **criteria: Unpack[_Criteria]) -> None:
    """List requests, newest first."""

    def fetch(span: PageSpan) -> Sequence[CoaRequest]:
        return coa_requests.list_requests(session, tenant_id=tenant_id, span=span, **criteria)

    with CommandContext().tenant(tenant) as (session, tenant_id):
        requests = islice(chain.from_iterable(coa_requests.ORDERS.pages(fetch, size=min(limit, _PAGE))), limit)
        rows = [coa_row(request) if as_json else short_coa_row(request) for request in requests]
    show_list(rows, as_json=as_json)


@command.command()
@tenant_option
@click.argument("request_id", metavar="ID", type=ROW_ID)
@json_option
def withdraw(tenant: str, request_id: int, as_json: bool) -> None:
    """Withdraw the request ID of coa list: no more packets are sent."""
    domain = CommandContext()
    with domain.tenant(tenant) as (session, tenant_id):
        row = coa_row(
            coa_requests.withdraw_request(session, actor=domain.actor, tenant_id=tenant_id, request_id=request_id)
        )
    show_one(row, as_json=as_json)
