"""Measures target P10: a help desk's queries of live sessions, with Admit's session service.

This module also prints the results of a benchmark as a Markdown table or JSON.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from random import Random
from time import perf_counter

import psycopg

from loadtest.carrier.preload import TenantSessions, preload
from loadtest.micro.journal_shipping import make_cell
from loadtest.processes import BenchError, run_in_processes
from loadtest.tally import RunResult
from nac.kit.db import TenantScope, make_engine, session_scope
from nac.kit.db.server_settings import compute_server_settings
from nac.kit.ids import TenantId
from nac.sessions import service as sessions
from radius.agent.radiusd.memory import available_bytes
from tests.postgres import Cluster

Row = Mapping[str, str | int | float | None]


def markdown(rows: Sequence[Row]) -> str:
    """Return a Markdown table. The keys of the first row are the column names. None becomes a dash."""
    names = list(rows[0]) if rows else []
    lines = [names, ["---"] * len(names), *([_cell(row[name]) for name in names] for row in rows)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def print_rows(rows: Sequence[Row], *, as_json: bool) -> None:
    print(json.dumps(rows, indent=1) if as_json else markdown(rows))


def _cell(value: str | float | None) -> str:
    if value is None:
        return "-"
    if isinstance(value, str):
        return value
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:.3g}"


KINDS = ("user", "mac", "nas", "address")
MIXED = "mixed"
PAGE = 100


def measure_queries(live: int, *, seconds: float, processes: int, log_line: Callable[[str], None]) -> list[Row]:
    """Measure each kind of query, then all kinds together.

    A query reads a page of at most 100 sessions. The number of queries for a tenant is proportional to the number of
    its sessions.
    """
    cluster = Cluster(**compute_server_settings(available_bytes()), full_page_writes="on")
    try:
        cluster.start()
        database = cluster.create_database()
        _, tenants = make_cell(database)
        with psycopg.connect(database.superuser_url, autocommit=True) as connection:
            start = perf_counter()
            crowds = preload(connection, tenants, live)
        log_line(f"{live:,} live sessions in {perf_counter() - start:.1f} s")
        rows = []
        for name, kinds in (*((kind, (kind,)) for kind in KINDS), (MIXED, KINDS)):
            works = [partial(run_queries, database.app_url, crowds, kinds, seconds, seed) for seed in range(processes)]
            rows.append(_row(name, run_in_processes(works), processes))
            log_line(f"{name}: {rows[-1]['queries/s']:,}/s")
        return rows
    finally:
        cluster.remove()


def run_queries(
    url: str, crowds: Sequence[TenantSessions], kinds: Sequence[str], seconds: float, seed: int
) -> RunResult:
    """Run one client with sequential queries. Raises BenchError for a wrong result."""
    engine, random = make_engine(url, pool_size=1, application_name="admit-bench"), Random(seed)
    sizes = [crowd.sessions for crowd in crowds]
    run = RunResult()
    try:
        # Warm up: the first queries also prepare the statements.
        for kind in kinds * 10:
            _run_query(engine, random.choices(crowds, sizes)[0], kind, 0)
        begin = now = perf_counter()
        while now < begin + seconds:
            [crowd] = random.choices(crowds, sizes)
            kind = kinds[run.requests % len(kinds)]
            _run_query(engine, crowd, kind, random.randrange(crowd.sessions))
            before, now = now, perf_counter()
            run.requests += 1
            tally = run.tally(kind)
            tally.right += 1
            tally.latency.add(now - before)
        run.seconds = now - begin
    finally:
        engine.dispose()
    return run


def _run_query(engine: object, crowd: TenantSessions, kind: str, n: int) -> None:
    tenant_id = TenantId(crowd.tenant_id)
    wanted = getattr(crowd, kind)(n)
    with session_scope(TenantScope(tenant_id), engine=engine) as session:
        found = sessions.list_sessions(session, tenant_id=tenant_id, limit=PAGE, **{kind: wanted})
    if kind == "nas":
        is_right = bool(found) and all(shown.nas == wanted.replace("sw-", "Switch ") for shown in found)
    else:
        is_right = f"{n:08X}" in {shown.row.session_id for shown in found}
    if not is_right:
        raise BenchError(f"no session found for {kind} {wanted}")


def _row(name: str, run: RunResult, processes: int) -> Row:
    """Table row with the rate of all queries, and the latencies of the slowest kind of query."""
    slowest = max((tally.latency for tally in run.tallies.values()), key=lambda latency: latency.percentile(0.99))
    return {
        "by": name,
        "clients": processes,
        "queries/s": round(run.rate),
        "p50 ms": round(slowest.percentile(0.5) * 1e3, 2),
        "p99 ms": round(slowest.percentile(0.99) * 1e3, 2),
        "slowest ms": round(slowest.max_seconds * 1e3, 1),
    }
