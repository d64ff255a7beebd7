"""`./admit coa`."""

from collections.abc import Sequence
from itertools import chain, islice
from typing import TypedDict, Unpack

import click

from cli.commands._coa_rows import coa_row, short_coa_row
from cli.domain import Domain
from cli.output import ROW_ID, json_option, show_list, show_one, tenant_option
from nac.coa_requests import service as coa_requests
from nac.db.sort_orders import PageSpan
from nac.models import CoaRequest
from nac.models.coa_request import COA_STATES

_PAGE = 500


class _Wanted(TypedDict):
    states: tuple[str, ...]
    row: int | None
    mac: str
    user: str
    nas: str
    reason: str
    redecision: int | None


@click.group()
def command() -> None:
    """What was asked of NASes about live sessions (RFC 5176), and what they answered."""


@command.command("list")
@tenant_option
@click.option("--state", "states", type=click.Choice(COA_STATES), multiple=True, help="Only these; several times.")
@click.option("--session", "row", metavar="ID", type=ROW_ID, help="About this session, by its id of session list.")
@click.option("--mac", default="", help="About this device, in any notation.")
@click.option("--user", metavar="NAME", default="", help="About this user.")
@click.option("--nas", metavar="NAS", default="", help="Asked of this NAS: identifier, address or name.")
@click.option("--reason", default="", help="Such as requested, redecided or endpoint-blocked.")
@click.option("--redecision", metavar="ID", type=ROW_ID, help="That follow from this one of redecide list.")
@click.option("--limit", type=click.IntRange(min=1), default=100, show_default=True, help="How many at most.")
@json_option
def list_command(tenant: str, limit: int, as_json: bool, **wanted: Unpack[_Wanted]) -> None:
    """List requests, the newest first."""

    def fetch(span: PageSpan) -> Sequence[CoaRequest]:
        return coa_requests.list_requests(session, tenant_id=tenant_id, span=span, **wanted)

    with Domain().tenant(tenant) as (session, tenant_id):
        found = islice(chain.from_iterable(coa_requests.ORDERS.pages(fetch, size=min(limit, _PAGE))), limit)
        rows = [coa_row(request) if as_json else short_coa_row(request) for request in found]
    show_list(rows, as_json=as_json)


@command.command()
@tenant_option
@click.argument("request_id", metavar="ID", type=ROW_ID)
@json_option
def withdraw(tenant: str, request_id: int, as_json: bool) -> None:
    """Send no more of the request ID of coa list."""
    domain = Domain()
    with domain.tenant(tenant) as (session, tenant_id):
        row = coa_row(
            coa_requests.withdraw_request(session, actor=domain.actor, tenant_id=tenant_id, request_id=request_id)
        )
    show_one(row, as_json=as_json)
