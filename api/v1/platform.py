"""Status of the platform."""

from datetime import datetime
from typing import Annotated, Any, get_args

from fastapi import Depends
from pydantic import BaseModel, Field

from api.access import Access, ReadsPlatform
from api.routes import NounRouter
from nac.core import alarms
from nac.kit.clock import utc_now
from nac.kit.permissions import Permission
from nac.models import Cell
from nac.tenancy.cells import service as cells
from nac.tenancy.cells.cell_admin import CellStatus

router = NounRouter(
    prefix="/platform", tag="platform", description="Status of the installation, with cells and alarms."
)

Reads = Annotated[Access, Depends(ReadsPlatform(Permission.CELL_READ))]


class Alarm(BaseModel):
    code: str = Field(description="Stable code of the alarm, for programs.")
    detail: str = Field(description='Explanation of the alarm in one sentence; "" if none.')
    since: datetime | None = Field(description="Time when the alarm began.")
    cell: str | None = Field(
        examples=["cell-1"], description="Name of the cell that raised the alarm; null for the platform."
    )


class PlatformCell(BaseModel):
    name: str = Field(description="Name of the cell.")
    host: str = Field(
        examples=["cell-1.example.net"],
        description='Host on which the cell\'s agent runs; "" if the agent was stopped.',
    )
    status: str = Field(
        description="Status of the cell. A `draining` cell takes no new tenants.",
        json_schema_extra={"enum": [*get_args(CellStatus), "retired"]},
    )
    silent: bool = Field(description="Whether the cell's agent has sent no report for a minute.")
    heard_at: datetime | None = Field(description="Time of the last report of the cell's agent.")
    current_at: datetime | None = Field(description="Time up to which all changes are in force in the cell.")
    shipped_until: datetime | None = Field(
        description="Time up to which the cell's journal records are in the database."
    )
    radiusd_started_at: datetime | None = Field(description="Time when the cell's radiusd started.")
    counters: dict[str, int] = Field(
        description="Counters of the cell's radiusd and agent, by name, from the start of each process."
    )


class PlatformStatus(BaseModel):
    alarms: list[Alarm] = Field(description="Current alarms of the platform and its cells.")
    cells: list[PlatformCell] = Field(description="Cells of the platform.")


@router.get("/status", operation_id="getPlatformStatus")
def get_status(access: Reads) -> PlatformStatus:
    """Get all cells and current alarms."""
    with access.read() as session:
        of_platform = alarms.list_alarms(session)
        served = cells.list_cells(session)
    raised = [Alarm(code=row.code, detail=row.detail, since=row.since, cell=None) for row in of_platform]
    raised += [_build_alarm(cell, alarm) for cell in served for alarm in cell.alarms]
    return PlatformStatus(alarms=raised, cells=[_build_cell(cell) for cell in served])


def _build_alarm(cell: Cell, alarm: dict[str, Any]) -> Alarm:
    return Alarm.model_validate(
        {
            "code": alarm.get("code", ""),
            "detail": alarm.get("detail", ""),
            "since": alarm.get("since"),
            "cell": cell.name,
        }
    )


def _build_cell(cell: Cell) -> PlatformCell:
    heard = cell.agent_seen_at
    return PlatformCell(
        name=cell.name,
        host=cell.host,
        status=cell.status,
        silent=heard is None or (utc_now() - heard).total_seconds() > cells.SILENT_SECONDS,
        heard_at=heard,
        current_at=cell.replica_position_at,
        shipped_until=cell.shipped_until,
        radiusd_started_at=cell.radiusd_started_at,
        counters={name: count for name, count in cell.counters.items() if isinstance(count, int)},
    )
