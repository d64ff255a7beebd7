"""`./admit endpoint`."""

from collections.abc import Sequence
from datetime import datetime

import click
from sqlalchemy.orm import Session

from cli.domain import Domain
from cli.moments import valid_until_option
from cli.output import Row, json_option, pages, show_list, show_one, tenant_option
from cli.verbs import add_verb
from nac.endpoints import service as endpoints
from nac.groups import ENDPOINT_GROUPS
from nac.ids import TenantId
from nac.mac import display_mac
from nac.models import Endpoint


@click.group()
def command() -> None:
    """Endpoints of a tenant: devices known by MAC address."""


def _rows(session: Session, tenant_id: TenantId, found: Sequence[Endpoint]) -> list[Row]:
    groups = ENDPOINT_GROUPS.names_of(session, tenant_id=tenant_id, member_ids=[endpoint.id for endpoint in found])
    return [
        {
            "mac": display_mac(endpoint.mac),
            "name": endpoint.name,
            "status": endpoint.status,
            "groups": groups.get(endpoint.id, ()),
            "valid_until": endpoint.valid_until and endpoint.valid_until.isoformat(),
        }
        for endpoint in found
    ]


def _row(session: Session, tenant_id: TenantId, endpoint: Endpoint) -> Row:
    return _rows(session, tenant_id, [endpoint])[0]


@command.command()
@click.argument("mac")
@tenant_option
@click.option("--name", default="", help="For people.")
@click.option("--group", "groups", multiple=True, help="A group it is in; may be repeated.")
@valid_until_option("When the approval ends (UTC).")
@json_option
def add(mac: str, tenant: str, name: str, groups: tuple[str, ...], valid_until: datetime | None, as_json: bool) -> None:
    """Add the endpoint MAC."""
    domain = Domain()
    with domain.change(tenant) as (session, tenant_id):
        endpoint = endpoints.add_endpoint(
            session,
            actor=domain.actor,
            tenant_id=tenant_id,
            mac=mac,
            name=name,
            groups=groups,
            valid_until=valid_until,
        )
        row = _row(session, tenant_id, endpoint)
    show_one(row, as_json=as_json)


add_verb(command, "remove", endpoints.remove_endpoint, key="mac", help="Remove the endpoint MAC.")
add_verb(
    command,
    "block",
    endpoints.block_endpoint,
    key="mac",
    help="Reject the endpoint MAC whatever the rules say.",
    row=_row,
)
add_verb(
    command,
    "unblock",
    endpoints.unblock_endpoint,
    key="mac",
    help="Let the rules decide about the endpoint MAC again.",
    row=_row,
)


@command.command("set-groups")
@click.argument("mac")
@click.argument("groups", nargs=-1)
@tenant_option
@json_option
def set_groups(mac: str, groups: tuple[str, ...], tenant: str, as_json: bool) -> None:
    """Make GROUPS the groups of the endpoint MAC, in place of those it is in."""
    domain = Domain()
    with domain.change(tenant) as (session, tenant_id):
        endpoint = endpoints.set_groups(session, actor=domain.actor, tenant_id=tenant_id, mac=mac, groups=groups)
        row = _row(session, tenant_id, endpoint)
    show_one(row, as_json=as_json)


@command.command("list")
@tenant_option
@json_option
def list_(tenant: str, as_json: bool) -> None:
    """List the endpoints by MAC address."""
    with Domain().tenant(tenant) as (session, tenant_id):
        found = pages(
            lambda after: endpoints.list_endpoints(session, tenant_id=tenant_id, after_mac=after),
            lambda endpoint: endpoint.mac,
            first="",
        )
        rows = [row for page in found for row in _rows(session, tenant_id, page)]
    show_list(rows, as_json=as_json)
