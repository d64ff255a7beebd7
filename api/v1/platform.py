"""How the platform is, for its operators."""

from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Depends
from pydantic import BaseModel, Field

from api.access import Access, ReadsPlatform
from nac.accounts.permissions import Permission
from nac.alarms import service as alarms
from nac.cells import service as cells
from nac.clock import utc_now
from nac.models import Cell

router = APIRouter(prefix="/platform", tags=["platform"])

Reads = Annotated[Access, Depends(ReadsPlatform(Permission.CELL_READ))]


class Alarm(BaseModel):
    code: str = Field(description="Code for programs; it stays.")
    detail: str = Field(description='What is so, in a sentence for people. "" where there is nothing to say.')
    since: datetime | None = Field(description="From when on.")
    cell: str | None = Field(description="Name of the cell that tells it; null where it is of the platform.")


class PlatformCell(BaseModel):
    name: str = Field(description="Name, for people.")
    host: str = Field(description='Host of the agent that serves it; "" where that one has left.')
    status: str = Field(description="draining: takes no new tenants.")
    silent: bool = Field(description="Nothing was heard of its agent for a minute.")
    heard_at: datetime | None = Field(description="When something was heard of it last.")
    current_at: datetime | None = Field(description="Every change of before this moment decides there.")
    shipped_until: datetime | None = Field(description="What was journalled before this moment is in the database.")
    radiusd_started_at: datetime | None = Field(description="When its radiusd was started.")
    counters: dict[str, int] = Field(
        description="What radiusd and agent have counted since they were started, by name."
    )


class PlatformStatus(BaseModel):
    alarms: list[Alarm] = Field(description="What is amiss now.")
    cells: list[PlatformCell] = Field(description="Cells.")


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
