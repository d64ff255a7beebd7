"""`./admit cell`."""

from typing import Literal

import click

from cli.domain import Domain
from cli.output import Row, json_option, show_list, show_one
from nac.cells import cell_admin
from nac.cells.cell_admin import CellState


@click.group()
def command() -> None:
    """Cells: each a radiusd with its agent, in whose slots tenants live."""


def _row(state: CellState) -> Row:
    cell = state.cell
    return {
        "name": cell.name,
        "status": cell.status,
        "host": cell.host,
        "address": cell.address,
        "labels": list(cell.labels),
        "seen": state.is_agent_reporting,
        "ports": f"{state.ports[0]}-{state.ports[1]}" if state.ports else "",
        "free": state.slots.get("free", 0),
        "tenants": state.slots.get("assigned", 0),
        "alarms": len(cell.alarms),
    }


@command.command("list")
@json_option
def list_(as_json: bool) -> None:
    """List the cells."""
    with Domain().platform() as session:
        rows = [_row(state) for state in cell_admin.list_states(session)]
    show_list(rows, as_json=as_json)


@command.command("set")
@click.argument("name")
@click.option("--status", type=click.Choice(["active", "draining"]), help="draining: it takes no new tenants.")
@click.option("--label", "labels", multiple=True, help="Where it is or what it is for; may be given several times.")
@click.option("--address", help='That NASes send to; "" for where it listens.')
@json_option
def set_(
    name: str,
    status: Literal["active", "draining"] | None,
    labels: tuple[str, ...],
    address: str | None,
    as_json: bool,
) -> None:
    """Change the cell NAME; what is not given stays."""
    domain = Domain()
    with domain.platform() as session:
        state = cell_admin.update_cell(
            session, actor=domain.actor, name=name, status=status, labels=labels or None, address=address
        )
        row = _row(state)
    show_one(row, as_json=as_json)
