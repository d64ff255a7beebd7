"""Cells of the platform."""

from datetime import datetime
from typing import Annotated, Any, get_args

from fastapi import Depends, Path
from pydantic import BaseModel, Field

from api.access import Access, ChangesPlatform, ReadsPlatform
from api.change import ObservedModel
from api.routes import NounRouter
from api.v1.inputs import Input, Omittable, Slug
from api.v1.paging import OrderedPaging, Page, require_paging
from nac.kit.permissions import Effect, Permission
from nac.tenancy.cells import cell_admin
from nac.tenancy.cells.cell_admin import CellState, CellStatus

router = NounRouter(
    prefix="/cells",
    tag="cells",
    description="RADIUS servers of the platform. Each tenant has a slot (pair of UDP ports) in a cell.",
)

_Name = Annotated[str, Path(max_length=200, examples=["cell-1"], description="Name of the cell.")]
Reads = Annotated[Access, Depends(ReadsPlatform(Permission.CELL_READ))]
Manages = Annotated[Access, Depends(ChangesPlatform(Permission.CELL_MANAGE, Effect.PLATFORM))]


class Slots(BaseModel):
    free: int = Field(description="Number of slots (port pairs) that are free for new tenants.")
    assigned: int = Field(description="Number of slots (port pairs) that serve a tenant.")
    reserved: int = Field(description="Number of slots (port pairs) reserved for moves of tenants.")
    retired: int = Field(description="Number of slots (port pairs) that need a new secret before reuse.")


class Cell(ObservedModel):
    name: str = Field(description="Name of the cell.")
    status: str = Field(
        description="Status of the cell. A `draining` cell takes no new tenants.",
        json_schema_extra={"enum": [*get_args(CellStatus), "retired"]},
    )
    labels: list[str] = Field(
        examples=[["frankfurt"]],
        description="Labels of the cell, such as frankfurt. You choose the cell of a new tenant by a label.",
    )
    address: str = Field(
        description='IP address or host name of the cell for NASes; "" for the address on which the cell listens.'
    )
    host: str = Field(examples=["cell-1.example.net"], description="Host name of the machine on which the cell runs.")
    seen: bool = Field(description="Whether the cell's agent reported within the last minute.")
    seen_at: datetime | None = Field(description="Time of the last report of the cell's agent.")
    first_port: int | None = Field(description="First UDP port of the cell's slots (port pairs).")
    last_port: int | None = Field(description="Last UDP port of the cell's slots (port pairs).")
    slots: Slots = Field(description="Number of slots (port pairs for tenants) by state.")
    radiusd_version: str = Field(description='Version of the cell\'s radiusd; "" if unknown.')
    alarms: list[dict[str, Any]] = Field(description="Current alarms of the cell's agent.")

    def observed_fields(self) -> set[str]:
        return set(Cell.model_fields) - {"name", "status", "labels", "address"}


class CellUpdate(Input):
    status: Omittable[CellStatus] = Field(
        None, description="Status of the cell. A `draining` cell takes no new tenants."
    )
    labels: Omittable[list[Slug]] = Field(
        None,
        max_length=cell_admin.MAX_LABELS,
        examples=[["frankfurt"]],
        description="Labels of the cell, such as frankfurt. You choose the cell of a new tenant by a label.",
    )
    address: Omittable[str] = Field(
        None,
        max_length=253,
        examples=["radius-1.admit.example"],
        description="IP address or host name of the cell for NASes.",
    )


@router.get("", operation_id="listCells")
def list_cells(
    access: Reads, paging: Annotated[OrderedPaging, Depends(require_paging(cell_admin.ORDERS))]
) -> Page[Cell]:
    """List cells."""
    with access.read() as session:
        states = cell_admin.list_states(session, span=paging.span)
        return paging.ordered(states, _build_cell, entity=lambda state: state.cell)


@router.get("/{cell}", operation_id="getCell")
def get_cell(access: Reads, cell: _Name) -> Cell:
    """Get a cell."""
    with access.read() as session:
        return access.shown(_build_cell(cell_admin.require_state(session, name=cell)))


@router.patch("/{cell}", operation_id="updateCell")
def update_cell(access: Manages, cell: _Name, body: CellUpdate) -> Cell:
    """Update a cell.

    A draining cell takes no new tenants. The tenants of the cell stay until you move the tenants.
    """
    with access.change() as change:
        change.require_match(_build_cell(cell_admin.require_state(change.session, name=cell, lock=True)))
        changes = body.model_dump(exclude_none=True)
        return change.answer(
            _build_cell(cell_admin.update_cell(change.session, actor=access.actor, name=cell, **changes))
        )


def _build_cell(state: CellState) -> Cell:
    row, counted = state.cell, state.slots
    first, last = state.ports or (None, None)
    return Cell(
        name=row.name,
        status=row.status,
        labels=row.labels,
        address=row.address,
        host=row.host,
        seen=state.is_agent_reporting,
        seen_at=row.agent_seen_at,
        first_port=first,
        last_port=last,
        slots=Slots(
            free=counted.get("free", 0),
            assigned=counted.get("assigned", 0),
            reserved=counted.get("reserved", 0) + counted.get("ready", 0),
            retired=counted.get("retired", 0),
        ),
        radiusd_version=state.version,
        alarms=row.alarms,
    )
