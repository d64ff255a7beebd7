"""Records the SQL statements of an API request, and PostgreSQL's plans for these statements."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx
from fastapi import FastAPI
from psycopg import sql
from sqlalchemy import Engine, event, text
from sqlalchemy.orm import Session

from nac.kit.db import TenantScope, driver_connection, session_scope
from nac.kit.ids import TenantId

_LOGS = ("auth_log", "accounting_log", "session_history", "usage_hours")


@dataclass(frozen=True)
class StatementPlan:
    statement: str
    # Log partitions that the statement read, and log partitions that it read completely (without an index).
    partitions: frozenset[str]
    scanned: frozenset[str]
    milliseconds: float
    planning_milliseconds: float


@dataclass(frozen=True)
class RequestPlans:
    statements: int
    plans: tuple[StatementPlan, ...]

    @property
    def scanned(self) -> set[str]:
        return {name for plan in self.plans for name in plan.scanned}

    @property
    def planning(self) -> float:
        """Return the total planning time, in milliseconds, of the statements that read a log."""
        return sum(plan.planning_milliseconds for plan in self.plans)

    @property
    def executing(self) -> float:
        return sum(plan.milliseconds for plan in self.plans)

    @property
    def most_partitions(self) -> int:
        return max((len(plan.partitions) for plan in self.plans), default=0)


def explain_request(app: FastAPI, client: httpx.Client, path: str, tenant_id: TenantId) -> RequestPlans:
    """Request `path` twice. Explain those statements of the second request that read a log.

    The first request also does work that the API does once a minute.
    """
    client.get(path).raise_for_status()
    engine: Engine = app.state.engine
    with _record_statements(engine) as noted:
        client.get(path).raise_for_status()
    plans = []
    for statement, parameters in noted:
        if any(f"FROM {log}" in statement for log in _LOGS):
            with session_scope(TenantScope(tenant_id), engine=engine) as session:
                plans.append(_explain(session, statement, parameters))
    return RequestPlans(len(noted), tuple(plans))


def _explain(session: Session, statement: str, parameters: Any) -> StatementPlan:  # noqa: ANN401 -- the driver's
    explain = sql.SQL("EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {}").format(sql.SQL(statement))
    row = driver_connection(session).execute(explain, parameters).fetchone()
    assert row is not None
    explained = row[0][0]
    read, scanned = set(), set()
    for node in _nodes(explained["Plan"]):
        name = node.get("Relation Name", "")
        if name.startswith(_LOGS) and node.get("Actual Loops"):
            read.add(name)
            if node["Node Type"] == "Seq Scan":
                scanned.add(name)
    rows = session.execute(
        text("SELECT relname FROM pg_class WHERE relname = ANY (:names) AND relpages > 5000"), {"names": list(scanned)}
    )
    # Reading a small table completely is fast: 40 MB take about 20 ms.
    large = frozenset(rows.scalars())
    times = explained["Execution Time"], explained["Planning Time"]
    return StatementPlan(statement, frozenset(read), large, *times)


def _nodes(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield node
    for child in node.get("Plans", ()):
        yield from _nodes(child)


@contextmanager
def _record_statements(engine: Engine) -> Iterator[list[tuple[str, Any]]]:
    noted: list[tuple[str, Any]] = []

    def note(connection: object, cursor: object, statement: str, parameters: Any, *_: object) -> None:  # noqa: ANN401
        noted.append((statement, parameters))

    event.listen(engine, "before_cursor_execute", note)
    try:
        yield noted
    finally:
        event.remove(engine, "before_cursor_execute", note)
