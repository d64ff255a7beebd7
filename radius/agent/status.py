"""Status of a cell, in `status.json` on the machine of the cell and in a row of the table `cells`."""

import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import msgspec
from sqlalchemy import Engine

from nac.kit import clock
from nac.kit.advice import Advice
from nac.kit.db import CellScope, session_scope
from nac.kit.ids import CellId
from nac.sessions.decisions.recorded_requests import from_microseconds
from nac.tenancy.cells import service as cells
from radius.agent.alarms import Alarm
from radius.agent.small_files import write_small_file


def status_document(
    *,
    state: str,
    cell: str,
    radiusd_pid: int | None,
    verifier_pid: int | None,
    slots: int,
    tenants: int,
    position_at: float | None,
    database: bool,
    memory: Mapping[str, int],
    backlog: Mapping[str, int],
    counters: Mapping[str, int],
    alarms: Sequence[Alarm],
) -> dict[str, Any]:
    """Content of status.json. `state` is "serving" or "down".

    `position_at` is the epoch time in seconds when the replica last had all changes.
    """
    return {
        "state": state,
        "at": clock.utc_now().isoformat(),
        "cell": cell,
        "agent_pid": os.getpid(),
        "radiusd_pid": radiusd_pid,
        "verifier_pid": verifier_pid,
        "slots": slots,
        "tenants": tenants,
        "replica_position_at": position_at,
        "database": database,
        "memory": dict(memory),
        "journal_backlog_bytes": dict(backlog),
        "counters": dict(counters),
        "alarms": [_build_alarm_row(alarm) for alarm in alarms],
    }


def _build_alarm_row(alarm: Alarm) -> dict[str, Any]:
    """Build the entry of an alarm in the status file.

    The next steps are in a separate field, because the reader of the file renders the steps.
    """
    row = asdict(alarm)
    if isinstance(alarm.detail, Advice):
        row |= {"detail": alarm.detail.text, "next_steps": [asdict(step) for step in alarm.detail.steps]}
    return row


def write_status(path: Path, document: Mapping[str, Any]) -> None:
    write_small_file(path, msgspec.json.encode(document))


def report_status(
    engine: Engine, cell_id: CellId, counters: Mapping[str, int], alarms: Sequence[Alarm], *, shipped_until: int
) -> None:
    """Update the cell's row in `cells`. `shipped_until` is in epoch microseconds, 0 if unknown.

    Raises CellTaken if the agent of another machine has taken over the cell.
    """
    with session_scope(CellScope(cell_id), engine=engine) as session:
        cells.report_cell(
            session,
            cell_id=cell_id,
            host=platform.node(),
            counters=counters,
            alarms=[asdict(alarm) for alarm in alarms],
            shipped_until=from_microseconds(shipped_until) if shipped_until else None,
        )


def release_cell(engine: Engine, cell_id: CellId) -> None:
    """Release the cell, so that another machine can take over the cell immediately."""
    with session_scope(CellScope(cell_id), engine=engine) as session:
        cells.leave_cell(session, cell_id=cell_id, host=platform.node())
