"""`./admit status`: state and health of all processes, without slow checks."""

import json
import textwrap
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from cli import environment, health
from cli.layout import Layout, NothingRuns, find_layout
from cli.operation_commands import render_alarm
from cli.output import show_json
from cli.procfs import memory_kilobytes, started_at
from cli.programs import PROGRAM_NAMES
from cli.supervisor import ProgramState, Supervisor
from nac.kit.clock import epoch_microseconds
from nac.kit.settings import Settings
from radius.agent.radiusd.probe import STATISTICS

_LINE = 100


@dataclass(frozen=True, slots=True)
class Row:
    process: str
    # State as supervisord reports it, in lower case.
    state: str
    # Problem of the process; "" if it is healthy.
    complaint: str
    pid: int
    uptime_seconds: int
    memory_kilobytes: int


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def command(ctx: click.Context, as_json: bool) -> None:
    """Show every process and the cell. Exit status 1 if a process or the cell is unhealthy."""
    layout = find_layout()
    states = Supervisor(layout).states() if layout else {}
    if layout is None or not states:
        click.echo(json.dumps({"processes": [], "cells": [], "alarms": []}) if as_json else str(NothingRuns()))
        ctx.exit(1)
    settings = environment.load_into_process()
    rows = [_row(name, states[name], layout, settings) for name in PROGRAM_NAMES if name in states]
    cells = _cells(layout)
    alarms = [render_alarm(alarm) for alarm in health.read_platform_alarms(settings)]
    if as_json:
        cell_rows = [_with_moments(cell) for cell in cells]
        show_json({"processes": [asdict(row) for row in rows], "cells": cell_rows, "alarms": alarms})
    else:
        _show(rows, cells)
        _show_alarms(alarms, indent="")
    ctx.exit(0 if all(row.state == "running" and not row.complaint for row in rows) else 1)


def _row(name: str, state: ProgramState, layout: Layout, settings: Settings) -> Row:
    wrong = health.find_problem(name, layout, settings, started_at=state.started_at) if state.pid else state.description
    memory = memory_kilobytes(state.pid) if state.pid else 0
    return Row(name, state.state.lower(), wrong, state.pid, state.uptime_seconds, memory)


def _cells(layout: Layout) -> list[dict[str, Any]]:
    return [
        _read_cell(folder) for folder in sorted((layout.var / "cells").glob("*")) if (folder / "status.json").exists()
    ]


def _read_cell(folder: Path) -> dict[str, Any]:
    status = health.read_cell_status(folder)
    return status | {"cell": folder.name, "alarms": [render_alarm(alarm) for alarm in status.get("alarms") or ()]}


def _with_moments(cell: dict[str, Any]) -> dict[str, Any]:
    """Return the cell's status with `replica_position_at` as a date instead of epoch seconds."""
    caught_up = cell.get("replica_position_at")
    return cell | {"replica_position_at": datetime.fromtimestamp(caught_up, UTC) if caught_up else None}


def _show(rows: list[Row], cells: list[dict[str, Any]]) -> None:
    click.echo(f"{'process':<10}{'state':<10}{'pid':>8}{'up':>10}{'memory':>10}  health")
    for row in rows:
        memory = f"{row.memory_kilobytes / 1024:.0f} MB"
        up = _duration(row.uptime_seconds)
        click.echo(f"{row.process:<10}{row.state:<10}{row.pid or '':>8}{up:>10}{memory:>10}  {row.complaint or 'well'}")
    for cell in cells:
        _show_cell(cell)


def _show_cell(cell: dict[str, Any]) -> None:
    now = epoch_microseconds() / 1e6
    radiusd = cell.get("radiusd_pid")
    verifier = cell.get("verifier_pid")
    caught_up = cell.get("replica_position_at")
    backlog = cell.get("journal_backlog_bytes") or {}
    lines = {
        "state": f"{cell.get('state')}, reported {max(0.0, now - health.reported_at(cell)):.0f} s ago",
        "radiusd": f"pid {radiusd}, {memory_kilobytes(radiusd) / 1024:.0f} MB" if radiusd else "does not run",
        "verifier": f"pid {verifier}, {memory_kilobytes(verifier) / 1024:.0f} MB" if verifier else "does not run",
        "slots": f"{cell.get('tenants')} of {cell.get('slots')} used",
        "replica": f"current {max(0.0, now - caught_up):.0f} s ago" if caught_up else "never filled",
        "database": "connected" if cell.get("database") else "not reachable: replica in use, journal waits",
        "journal": ", ".join(f"{stream} {size} bytes to copy" for stream, size in backlog.items()) or "none",
    }
    click.echo(f"\n{cell['cell']}")
    for label, value in lines.items():
        click.echo(f"  {label:<10}{value}")
    counters = cell.get("counters") or {}
    of_radiusd = {name: count for name, count in counters.items() if name in STATISTICS.values()}
    _show_counters("radiusd", radiusd, of_radiusd)
    _show_counters("the agent", cell.get("agent_pid"), {name: counters[name] for name in counters.keys() - of_radiusd})
    _show_alarms(cell.get("alarms") or [], indent="  ")


def _show_alarms(alarms: list[dict[str, str]], *, indent: str) -> None:
    for alarm in alarms:
        click.echo(f"{indent}{'alarm':<10}{alarm['code']}: {alarm['detail']} (since {alarm['since']})")
    if indent and not alarms:
        click.echo(f"{indent}{'alarm':<10}none")


def _show_counters(whose: str, pid: int | None, counters: dict[str, int]) -> None:
    """Print the counters that are not 0. The counters of a process begin at the last start of the process."""
    began = started_at(pid) if pid else 0
    since = f", at {datetime.fromtimestamp(began, UTC):%Y-%m-%d %H:%M:%S} UTC" if began else ""
    click.echo(f"  counted since the last start of {whose}{since}")
    texts = ", ".join(f"{name}\N{NO-BREAK SPACE}{count}" for name, count in sorted(counters.items()) if count)
    lines = textwrap.wrap(texts or "nothing", _LINE, initial_indent=" " * 12, subsequent_indent=" " * 12)
    click.echo("\n".join(lines).replace("\N{NO-BREAK SPACE}", " "))


def _duration(seconds: int) -> str:
    if seconds < 120:
        return f"{seconds} s"
    if seconds < 7200:
        return f"{seconds // 60} min"
    return f"{seconds // 3600} h" if seconds < 172_800 else f"{seconds // 86_400} d"
