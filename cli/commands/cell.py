"""`./admit cell`."""

from typing import Literal

import click

from cli.command_context import CommandContext
from cli.output import Row, json_option, show_list, show_one
from nac.tenancy.cells import cell_admin
from nac.tenancy.cells.cell_admin import CellState


@click.group()
def command() -> None:
    """Manage cells: one radiusd and its agent each, with slots for tenants."""


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
    with CommandContext().platform() as session:
        rows = [_row(state) for state in cell_admin.list_states(session)]
    show_list(rows, as_json=as_json)


@command.command("set")
@click.argument("name")
@click.option(
    "--status", type=click.Choice(["active", "draining"]), help="Status; a draining cell takes no new tenants."
)
@click.option("--label", "labels", multiple=True, help="Location or purpose of the cell; repeatable.")
@click.option("--address", help='Address for NASes; "" for the listen address.')
@json_option
def set_(
    name: str,
    status: Literal["active", "draining"] | None,
    labels: tuple[str, ...],
    address: str | None,
    as_json: bool,
) -> None:
    """Update the cell NAME. Omitted settings do not change."""
    domain = CommandContext()
    with domain.platform() as session:
        state = cell_admin.update_cell(
            session, actor=domain.actor, name=name, status=status, labels=labels or None, address=address
        )
        row = _row(state)
    show_one(row, as_json=as_json)
