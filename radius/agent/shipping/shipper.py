"""Ships one stream of the journal to PostgreSQL, exactly once.

A batch is one transaction, which writes the rows and the new position. The transaction first locks the row of
journal_positions and compares the position. So after any failure during a commit, the stored position decides what is
shipped next.
"""

import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import psycopg
from sqlalchemy import Engine, event
from sqlalchemy.exc import SQLAlchemyError

from nac.cellformat.journal.reader import JournalReader, RecordBatch, SegmentPosition
from nac.kit.clock import epoch_microseconds
from nac.kit.db import CellScope, driver_connection, make_engine, session_scope
from nac.kit.errors import AdmitError, CellTaken
from nac.kit.ids import CellId
from nac.tenancy.cells.service import SHIPPING_LOCK
from radius.agent.alarms import Alarms, first_error_line
from radius.agent.shipping.quarantine import RejectedRecord, quarantine_records
from radius.agent.shipping.streams import StrayRecord, Stream, StreamBatch

MAX_RECORDS = 5_000
MAX_BYTES = 4 << 20
# Time to collect records before a batch. A transaction costs as much as several hundred rows.
GATHER_SECONDS = 0.15
# Shorter time to collect records while a client watches events or a feed waits.
GATHER_WATCHED_SECONDS = 0.075
FULL_BATCH_RECORDS = 2_000
_MAX_BACKOFF_SECONDS = 5.0
# Seconds that an old segment may stay open before the alarm. A replaced radiusd ends much earlier.
_MAX_HELD_SECONDS = 30
# SQLSTATE classes of rejected data: data exception, integrity violation, program limit exceeded. Any other error
# (server, disk space, permissions) may disappear, so the shipper retries.
_DATA_FAULTS = ("22", "23", "54")
_CHECK_VIOLATION = "23514"

_POSITION_CREATE = """
INSERT INTO journal_positions (cell_id, stream, segment, "offset") VALUES (%s, %s, '', 0) ON CONFLICT DO NOTHING
"""
_POSITION_LOCK = """
SELECT p.segment, p."offset", p.open_conversations::text
FROM journal_positions p JOIN cells c ON c.id = p.cell_id AND c.host = coalesce(%s, c.host)
WHERE p.cell_id = %s AND p.stream = %s FOR UPDATE OF p
"""
_POSITION_STORE = """
UPDATE journal_positions SET segment = %s, "offset" = %s, open_conversations = %s::jsonb, updated_at = now()
WHERE cell_id = %s AND stream = %s
"""
_TAKE_SHIPPING_LOCK = "SELECT pg_advisory_xact_lock_shared(%s, %s)"
_TENANTS = "SELECT tenant_id::text FROM slots WHERE cell_id = %s AND tenant_id IS NOT NULL"


def shipping_engine(url: str, stream: Stream) -> Engine:
    """Create an engine with one connection, which has the stream's temporary tables."""
    engine = make_engine(url, pool_size=1, application_name=f"admit-ship-{stream.name}")

    @event.listens_for(engine, "connect")
    def make_tables(connection: psycopg.Connection, _: object) -> None:
        connection.autocommit = True
        # A batch changes a few thousand rows of a table with millions of rows. The temporary tables have no statistics,
        # so the planner would read whole tables and start JIT compilation. Therefore table scans and JIT compilation
        # are off.
        for setting in ("enable_seqscan", "enable_hashjoin", "enable_mergejoin", "jit"):
            connection.execute("SELECT set_config(%s, 'off', false)", (setting,))
        # Sort a batch in memory.
        connection.execute("SELECT set_config('work_mem', '32MB', false)")
        # The agent deletes journal segments after the commit, so the commit must be on disk, whatever the cluster's
        # default.
        connection.execute("SELECT set_config('synchronous_commit', 'on', false)")
        for table in stream.tables:
            connection.execute(table)
        connection.autocommit = False

    return engine


def is_data_fault(exc: psycopg.Error) -> bool:
    """Whether PostgreSQL rejects the data, so that a retry is useless."""
    if exc.sqlstate == _CHECK_VIOLATION and not exc.diag.constraint_name:
        # Not a fault of the data: a partition was created while its row was on the way to the default partition.
        return False
    return (exc.sqlstate or "")[:2] in _DATA_FAULTS


def list_cell_tenants(cursor: psycopg.Cursor, cell_id: CellId) -> frozenset[str]:
    """Return the ids of the cell's tenants.

    Locks the tenants until the transaction ends. Until then, no tenant can move to another cell.
    """
    cursor.execute(_TAKE_SHIPPING_LOCK, (SHIPPING_LOCK, cell_id))
    return frozenset(row[0] for row in cursor.execute(_TENANTS, (cell_id,)))


class _PositionMoved(Exception):
    """The stored position in the journal has changed. This exception is not a failure.

    Another process has shipped the batch, or an earlier commit of this process succeeded without a response.
    """


class Shipper:
    """Ships one stream.

    `journal` is a directory with a folder for each stream. `host` is the name of this machine. Shipping stops if
    another machine owns the cell.
    """

    def __init__(
        self,
        stream: Stream,
        *,
        cell_id: CellId,
        engine: Engine,
        journal: Path,
        alarms: Alarms,
        host: str | None = None,
        clock: Callable[[], int] = epoch_microseconds,
    ) -> None:
        self.counters: Counter[str] = Counter()
        self._stream = stream
        self._cell_id = cell_id
        self._host = host
        self._engine = engine
        self._reader = JournalReader(journal / stream.name)
        self._alarms = alarms
        self._clock = clock
        # All records until this time (epoch microseconds) are in the database; 0 if unknown.
        self.shipped_until = 0
        self._position: SegmentPosition | None = None
        # Time since when newer segments wait because a process has an older segment open (epoch microseconds); 0 if no
        # segment waits.
        self._held_since = 0
        self._limit = MAX_RECORDS

    def run(self, stop: threading.Event) -> None:
        """Ship until `stop` is set. Retries after database errors."""
        backoff = 0.0
        alarm = f"ship-{self._stream.name}"
        while not stop.is_set():
            try:
                shipped = self.step()
            except (psycopg.Error, SQLAlchemyError, AdmitError, OSError) as exc:
                backoff = min(max(0.2, backoff * 2), _MAX_BACKOFF_SECONDS)
                self.counters["failures"] += 1
                self._alarms.report(alarm, f"Journal records do not reach the database: {first_error_line(exc)}")
                stop.wait(backoff)
                continue
            backoff = 0.0
            self._alarms.clear(alarm)
            if shipped < FULL_BATCH_RECORDS:
                stop.wait(GATHER_WATCHED_SECONDS if self._stream.is_watched else GATHER_SECONDS)
        self.close()

    def close(self) -> None:
        self._reader.close()

    def step(self) -> int:
        """Ship one batch. Returns the number of processed records; 0 if no records were left.

        Raises database errors that are not data faults.
        """
        if self._position is None:
            self._adopt_stored_position()
        assert self._position is not None
        began = self._clock()
        batch = self._reader.read_batch(self._position, max_records=self._limit, max_bytes=MAX_BYTES)
        if batch.position == self._position and not self._stream.due(self._clock()):
            self._report(batch)
            if not batch.held:
                self.shipped_until = began
            return 0
        try:
            last_at = self._store(batch)
        except _PositionMoved:
            self._position = None
            return 1
        except psycopg.Error as exc:
            if not is_data_fault(exc):
                raise
            self._narrow(batch, exc)
            return 1
        self._advance(batch, last_at)
        self.shipped_until = max(self.shipped_until, last_at if batch.more or batch.held else began)
        return len(batch.payloads)

    def backlog_bytes(self) -> int:
        return self._reader.backlog_bytes(self._position or SegmentPosition())

    def _adopt_stored_position(self) -> None:
        with session_scope(CellScope(self._cell_id), engine=self._engine) as session:
            cursor = driver_connection(session).cursor()
            cursor.execute(_POSITION_CREATE, (self._cell_id, self._stream.name))
            position, open_conversations = self._lock(cursor)
        self._stream.restore(open_conversations)
        self._position = position

    def _lock(self, cursor: psycopg.Cursor) -> tuple[SegmentPosition, str]:
        row = cursor.execute(_POSITION_LOCK, (self._host, self._cell_id, self._stream.name)).fetchone()
        if row is None:
            # The position belongs to the journal of another machine. Shipping from this position would skip records of
            # this machine's journal.
            raise CellTaken(f"The cell is served by a host other than {self._host}.")
        return SegmentPosition(row[0], row[1]), row[2]

    def _store(self, batch: RecordBatch, refused: tuple[RejectedRecord, ...] = ()) -> int:
        """Store a batch.

        Returns the time of the batch's last record; 0 if the batch is empty. `refused` records go into quarantine.
        """
        with session_scope(CellScope(self._cell_id), engine=self._engine) as session:
            cursor = driver_connection(session).cursor()
            if self._lock(cursor)[0] != self._position:
                raise _PositionMoved
            work, last_at, strange = self._prepare(cursor, batch)
            set_aside = [*refused, *strange]
            work.write(cursor, self._cell_id)
            left_out = quarantine_records(cursor, self._cell_id, self._stream.name, set_aside)
            position = batch.position
            stored = (position.segment, position.offset, work.open_conversations(), self._cell_id, self._stream.name)
            cursor.execute(_POSITION_STORE, stored)
        self._stream.committed(work)
        self._report_rejected(set_aside, left_out)
        return last_at

    def _prepare(self, cursor: psycopg.Cursor, batch: RecordBatch) -> tuple[StreamBatch, int, list[RejectedRecord]]:
        work = self._stream.begin(list_cell_tenants(cursor, self._cell_id))
        last_at = 0
        strange = []
        for payload in batch.payloads:
            try:
                last_at = work.take(payload)
            except StrayRecord as exc:
                strange.append(RejectedRecord(payload, "stray", f"{exc}"))
            except Exception as exc:  # house-rule: a record that our code cannot handle does not stop the others
                strange.append(RejectedRecord(payload, "quarantined", f"{type(exc).__name__}: {exc}"))
        # During a backlog, use the time of the records: the next batch may contain the end of a conversation.
        work.finish(last_at if batch.more else self._clock())
        return work, last_at, strange

    def _narrow(self, batch: RecordBatch, exc: psycopg.Error) -> None:
        """Find the records that PostgreSQL rejects by halving the batch, and put them into quarantine."""
        if len(batch.payloads) > 1:
            self._limit = max(1, len(batch.payloads) // 2)
            return
        refused = tuple(RejectedRecord(payload, "quarantined", first_error_line(exc)) for payload in batch.payloads)
        batch.payloads = []
        self._advance(batch, self._store(batch, refused))

    def _report_rejected(self, records: list[RejectedRecord], left_out: int) -> None:
        """Count and report quarantined records after the commit, so that each counts once."""
        self.counters["lost"] += left_out
        for kind, number in Counter(record.kind for record in records).items():
            self.counters[kind] += number
            last = [record.why for record in records if record.kind == kind][-1]
            full = f" The quarantine is full: {self.counters['lost']} were lost." if left_out else ""
            self._alarms.report_event(
                f"{kind}-{self._stream.name}",
                f"{self.counters[kind]} journal records were quarantined. Last reason: {last}.{full}",
            )

    def _advance(self, batch: RecordBatch, last_at: int) -> None:
        assert self._position is not None
        moved_on = batch.position.segment != self._position.segment
        self._position = batch.position
        self._limit = min(MAX_RECORDS, self._limit * 2)
        self.counters["shipped"] += len(batch.payloads)
        self.counters["batches"] += 1
        for cut in batch.cuts:
            self.counters["cut_tails"] += 1
            self.counters["cut_bytes"] += cut.lost_bytes
            self._alarms.report_event(
                f"journal-cut-{self._stream.name}",
                f"Segment {cut.segment} was damaged at byte {cut.offset}: {cut.lost_bytes} bytes are lost.",
            )
        if moved_on:
            self._reader.delete_before(batch.position)
        self._report(batch, last_at)

    def _report(self, batch: RecordBatch, last_at: int = 0) -> None:
        behind = batch.more and last_at
        self.counters["lag_seconds"] = max(0, self._clock() - last_at) // 1_000_000 if behind else 0
        alarm = f"journal-damaged-{self._stream.name}"
        if batch.damaged:
            self._alarms.report(
                alarm,
                "The current journal segment is damaged. When radiusd starts the next segment, Admit cuts off the"
                " damaged end of this segment.",
            )
        else:
            self._alarms.clear(alarm)
        self._report_held(batch)

    def _report_held(self, batch: RecordBatch) -> None:
        """Raise an alarm if an old segment of the journal stays open.

        While radiusd is replaced, two processes write segments for some seconds.
        """
        self._held_since = (self._held_since or self._clock()) if batch.held else 0
        alarm = f"journal-held-{self._stream.name}"
        if batch.held and self._clock() - self._held_since > _MAX_HELD_SECONDS * 1_000_000:
            self._alarms.report(
                alarm,
                f"A process keeps segment {batch.position.segment} open although later segments exist. "
                "The records of the later segments reach the database only after that process has ended.",
            )
        else:
            self._alarms.clear(alarm)
