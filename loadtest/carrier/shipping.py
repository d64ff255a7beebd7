"""Measures how fast Admit copies accounting records to PostgreSQL. Several databases run the same workload in turns."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter, process_time
from typing import Literal
from uuid import UUID

import psycopg
from sqlalchemy import Engine

from loadtest.carrier.preload import TenantSessions, preload
from loadtest.carrier.queries import Row
from loadtest.micro.journal_records import RECORDS_PER_SESSION, accounting_record
from loadtest.micro.journal_shipping import TENANTS, make_cell
from loadtest.processes import BenchError
from nac.cellformat.journal.records import AccountingRecord
from nac.cellformat.journal.writer import JournalWriter
from nac.kit.clock import epoch_microseconds
from nac.kit.db.server_settings import compute_server_settings
from radius.agent.alarms import Alarms
from radius.agent.radiusd.memory import available_bytes
from radius.agent.shipping.shipper import Shipper, shipping_engine
from radius.agent.shipping.streams import AccountingStream
from tests.postgres import Cluster, Database

# Workloads. new: sessions that begin, report three times and end. interim: reports of existing sessions.
WorkKind = Literal["new", "interim"]
WORKS: tuple[WorkKind, ...] = ("new", "interim")
_STATE = """
SELECT pg_database_size(current_database()), pg_table_size('sessions'), pg_indexes_size('sessions'), t.n_live_tup,
    t.n_dead_tup, t.n_tup_upd, t.n_tup_hot_upd,
    (SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid())
FROM pg_stat_user_tables t WHERE t.relid = 'sessions'::regclass
"""
LogLine = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class DatabaseState:
    database_bytes: int
    table_bytes: int
    index_bytes: int
    live: int
    dead: int
    updates: int
    # Number of HOT updates, which need no new index entry.
    hot_updates: int
    connections: int

    def hot_share_since(self, before: "DatabaseState") -> float | None:
        """Return the share of HOT (heap-only tuple) updates since `before`; None without updates."""
        updates = self.updates - before.updates
        return (self.hot_updates - before.hot_updates) / updates if updates else None


@dataclass(frozen=True, slots=True)
class ShippingTurn:
    records: int
    seconds: float
    agent_seconds: float
    postgres_seconds: float


@dataclass(eq=False, slots=True)
class ShippingContender:
    """A database with a cell, a journal and a shipper."""

    name: str
    database: Database
    tenants: list[UUID]
    crowds: list[TenantSessions]
    engine: Engine
    shipper: Shipper
    writer: JournalWriter
    turns: dict[WorkKind, list[ShippingTurn]] = field(default_factory=dict)
    last: dict[WorkKind, DatabaseState] = field(default_factory=dict)
    hot: dict[WorkKind, float | None] = field(default_factory=dict)
    _written: int = 0

    def take_turn(self, work: WorkKind, count: int) -> None:
        for record in self._records(work, count):
            self.writer.append(record)
        before = self.shipper.counters["shipped"]
        backend = _backend_seconds(self.database)
        start, cpu, theirs = perf_counter(), process_time(), backend()
        while self.shipper.step():
            continue
        seconds, ours, theirs = perf_counter() - start, process_time() - cpu, backend() - theirs
        shipped = self.shipper.counters["shipped"] - before
        if shipped != count:
            raise BenchError(f"{self.name}: {count:,} records were written, but {shipped:,} shipped")
        self.turns.setdefault(work, []).append(ShippingTurn(shipped, seconds, ours, theirs))

    def _records(self, work: WorkKind, count: int) -> Iterator[AccountingRecord]:
        if work == "new":
            concurrent = count // RECORDS_PER_SESSION
            for number in range(self._written, self._written + count):
                yield accounting_record(number, self.tenants[number % concurrent % TENANTS], concurrent)
            self._written += count
            return
        random = Random(count + len(self.turns.get(work, ())))
        at = epoch_microseconds()
        sizes = [crowd.sessions for crowd in self.crowds]
        for crowd in random.choices(self.crowds, sizes, k=count):
            yield crowd.report(random.randrange(crowd.sessions), at=at)

    def state(self) -> DatabaseState:
        with self.engine.connect() as connection:
            # Otherwise, PostgreSQL publishes the statistics of this connection only after ten idle seconds.
            connection.exec_driver_sql("SELECT pg_stat_force_next_flush()")
        return _read_state(self.database.superuser_url)

    def row(self, work: WorkKind, share: float | None) -> Row:
        turns, state = self.turns[work], self.last[work]
        rates = [turn.records / turn.seconds for turn in turns]
        each = {
            role: median(getattr(turn, f"{role}_seconds") / turn.records * 1e6 for turn in turns)
            for role in ("agent", "postgres")
        }
        return {
            "beside": self.name,
            "work": work,
            "records/s": round(median(rates)),
            "rounds": f"{min(rates):,.0f}-{max(rates):,.0f}",
            "of the first": share and round(share, 3),
            "agent us": round(each["agent"], 1),
            "PostgreSQL us": round(each["postgres"], 1),
            "database MB": round(state.database_bytes / 1e6),
            "sessions MB": round(state.table_bytes / 1e6),
            "indexes MB": round(state.index_bytes / 1e6),
            "dead tuples": state.dead,
            "HOT": None if self.hot[work] is None else f"{self.hot[work]:.1%}",
            "connections": state.connections,
        }

    def rate(self, work: WorkKind) -> float:
        return median(turn.records / turn.seconds for turn in self.turns[work])


@contextmanager
def start_contenders(
    plans: Sequence[tuple[str, int, AccountingStream]], *, log_line: LogLine
) -> Iterator[list[ShippingContender]]:
    """Create a contender in a private cluster for each item of `plans`: name, number of live sessions, and stream.

    The cluster has the memory settings of `./admit up`, but no fsync.
    """
    with ExitStack() as stack:
        cluster = Cluster(**compute_server_settings(available_bytes()), full_page_writes="on")
        stack.callback(cluster.remove)
        cluster.start()
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="admit-bench-")))
        yield [
            stack.enter_context(_contender(cluster, folder / f"{number}", *plan, log_line=log_line))
            for number, plan in enumerate(plans)
        ]


@contextmanager
def _contender(
    cluster: Cluster, journal: Path, name: str, sessions: int, stream: AccountingStream, *, log_line: LogLine
) -> Iterator[ShippingContender]:
    database = cluster.create_database(f"admit_{journal.name}")
    cell_id, tenants = make_cell(database)
    start = perf_counter()
    with psycopg.connect(database.superuser_url, autocommit=True) as connection:
        crowds = preload(connection, tenants, sessions) if sessions else []
    log_line(f"{name}: {sessions:,} live sessions in {perf_counter() - start:.1f} s")
    engine = shipping_engine(database.cell_url, stream)
    alarms = Alarms()
    shipper = Shipper(stream, cell_id=cell_id, engine=engine, journal=journal, alarms=alarms)
    writer = JournalWriter(journal / stream.name, max_bytes=8 << 30)
    try:
        yield ShippingContender(name, database, tenants, crowds, engine, shipper, writer)
    finally:
        writer.close()
        shipper.close()
        engine.dispose()
    if alarms.standing():
        raise BenchError(f"{name}: {alarms.standing()}")


def run_turns(
    made: Sequence[ShippingContender], works: Sequence[WorkKind], *, rounds: int, count: int, log_line: LogLine
) -> list[Row]:
    """Run the contenders in the order A B C A B C, after a warm-up.

    Returns rows in the order of workloads and contenders. Each turn ships `count` records. `count` must be a multiple
    of RECORDS_PER_SESSION, so that sessions are complete.
    """
    rows = []
    for work in works:
        able = [each for each in made if each.crowds or work == "new"]
        for each in able:
            each.take_turn(work, count)
            each.turns[work].clear()
        begun = {each.name: each.state() for each in able}
        for number in range(1, rounds + 1):
            for each in able:
                each.take_turn(work, count)
                log_line(f"{work} {number}/{rounds} {each.name}: {count / each.turns[work][-1].seconds:,.0f}/s")
        for each in able:
            each.last[work] = each.state()
            each.hot[work] = each.last[work].hot_share_since(begun[each.name])
            rows.append(each.row(work, each.rate(work) / able[0].rate(work)))
    return rows


def _backend_seconds(database: Database) -> Callable[[], float]:
    """Return a function that reads the CPU seconds of the PostgreSQL process that serves the shipper."""
    with psycopg.connect(database.superuser_url) as connection:
        row = connection.execute(
            "SELECT pid FROM pg_stat_activity "
            "WHERE application_name LIKE 'admit-ship-%' AND datname = current_database()"
        ).fetchone()
    ticks = os.sysconf("SC_CLK_TCK")

    def seconds() -> float:
        if row is None:
            return 0.0
        fields = Path(f"/proc/{row[0]}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / ticks

    return seconds


def _read_state(url: str) -> DatabaseState:
    """Read the state of the database. `url` must be the URL of a superuser."""
    with psycopg.connect(url, autocommit=True) as connection:
        row = connection.execute(_STATE).fetchone()
    assert row is not None
    return DatabaseState(*row)
