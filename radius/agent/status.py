"""What a cell tells of itself: `status.json` for the machine it runs on, its row in `cells` for everybody else."""

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import msgspec
from sqlalchemy import Engine, update

from nac import clock
from nac.db import CellScope, session_scope
from nac.ids import CellId
from nac.models import Cell
from radius.agent.alarms import Alarm
from radius.agent.files import write_small


def status_document(
    *,
    state: str,
    cell: str,
    radiusd_pid: int | None,
    slots: int,
    tenants: int,
    position_at: float | None,
    database: bool,
    backlog: Mapping[str, int],
    counters: Mapping[str, int],
    alarms: Sequence[Alarm],
) -> dict[str, Any]:
    """`state` is serving or down; `position_at` is when the replica last caught up, epoch seconds."""
    return {
        "state": state,
        "at": clock.utc_now().isoformat(),
        "cell": cell,
        "agent_pid": os.getpid(),
        "radiusd_pid": radiusd_pid,
        "slots": slots,
        "tenants": tenants,
        "replica_position_at": position_at,
        "database": database,
        "journal_backlog_bytes": dict(backlog),
        "counters": dict(counters),
        "alarms": [asdict(alarm) for alarm in alarms],
    }


def write_status(path: Path, document: Mapping[str, Any]) -> None:
    write_small(path, msgspec.json.encode(document))


def report(engine: Engine, cell_id: CellId, counters: Counter[str], alarms: Sequence[Alarm]) -> None:
    with session_scope(CellScope(cell_id), engine=engine) as session:
        session.execute(
            update(Cell)
            .where(Cell.id == cell_id)
            .values(agent_seen_at=clock.utc_now(), counters=dict(counters), alarms=[asdict(alarm) for alarm in alarms])
        )
