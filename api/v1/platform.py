"""How the platform is, for its operators."""

from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Depends
from pydantic import BaseModel

from api.access import Access, ReadsPlatform
from nac.accounts.permissions import Permission
from nac.alarms import service as alarms
from nac.cells import service as cells
from nac.clock import utc_now
from nac.models import Cell

router = APIRouter(prefix="/platform", tags=["platform"])

Reads = Annotated[Access, Depends(ReadsPlatform(Permission.CELL_READ))]


class Alarm(BaseModel):
    code: str
    detail: str
    since: datetime | None
    # Name of the cell that tells it; null where it is of the platform.
    cell: str | None


class PlatformCell(BaseModel):
    name: str
    # Of the agent that serves it; "" where that one has left.
    host: str
    # active | draining | retired
    status: str
    # Nothing was heard of its agent for a minute.
    silent: bool
    heard_at: datetime | None
    # Every change of before decides there.
    current_at: datetime | None
    # What was journalled before is in the database.
    shipped_until: datetime | None
    radiusd_started_at: datetime | None
    # What its radiusd and agent have counted since they were started.
    counters: dict[str, int]


class PlatformStatus(BaseModel):
    alarms: list[Alarm]
    cells: list[PlatformCell]


@router.get("/status", operation_id="getPlatformStatus")
def get_status(access: Reads) -> PlatformStatus:
    """Cells and everything that is wrong now."""
    with access.read() as session:
        of_platform = alarms.standing(session)
        served = cells.list_cells(session)
    told = [Alarm(code=row.code, detail=row.detail, since=row.since, cell=None) for row in of_platform]
    told += [_alarm(cell, alarm) for cell in served for alarm in cell.alarms]
    return PlatformStatus(alarms=told, cells=[_status(cell) for cell in served])


def _alarm(cell: Cell, told: dict[str, Any]) -> Alarm:
    return Alarm.model_validate(
        {"code": told.get("code", ""), "detail": told.get("detail", ""), "since": told.get("since"), "cell": cell.name}
    )


def _status(cell: Cell) -> PlatformCell:
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
