"""Keeps the cell's replica up to date with PostgreSQL (ADR 0001).

The position of the replica is the PostgreSQL snapshot of the last transaction that read changes. A change is new if the
change is visible now but was not visible in the snapshot. So the order of commits does not matter. A change is in
effect in the cell as soon as cells.replica_position includes the transaction of the change.
"""

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path

import psycopg
from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from nac.cellformat.replica.change_feed import KEEP_DAYS
from nac.cellformat.replica.check import check_replica
from nac.cellformat.replica.files import ReplicaDamaged, ReplicaError, ReplicaMissing
from nac.cellformat.replica.record_builder import Reseal
from nac.cellformat.replica.records import SlotRecord
from nac.cellformat.replica.writer import ReplicaWriter, WriteBatch
from nac.engine import ReplyDictionary
from nac.kit.clock import epoch_microseconds, epoch_seconds
from nac.kit.db import CellScope, connect, driver_connection, session_scope
from nac.kit.errors import AdmitError, NotFound
from nac.kit.ids import CellId
from radius.agent.alarms import Alarms, first_error_line
from radius.agent.replica.loader import ReplicaLoader, TenantKey
from radius.agent.replica.pools import ClaimsFileLookup, no_claims_file
from radius.agent.sessions.counts import SESSION_NOUN as SESSION
from radius.agent.sessions.counts import SessionCounts

# Interval of polls, in case a notification is lost.
POLL_SECONDS = 1.0
# Intervals at which the agent stores a newer position if no row of this cell changed. The interval is short after a
# notification, because a client may wait for its change. Without a notification, the stored position only limits how
# many changes PostgreSQL must read.
ADVANCE_NOTIFIED_SECONDS = 0.5
ADVANCE_SECONDS = 5.0
# Interval to check whether another server certificate has become current. The database announces no change when only
# time passes.
SERVER_CERTIFICATE_SECONDS = 10.0
# Limit of waiting changes. If more changes wait, the agent loads all rows again, which is faster.
MAX_CHANGES = 200_000
_MAX_BACKOFF_SECONDS = 5.0

# Function that is called with the occupied slots, in the transaction that read the slots. The call comes before the
# commit of a replica change that may concern slots.
BeforeCommit = Callable[[Session, Mapping[int, SlotRecord]], None]
# (tenant id, noun) -> keys of changed rows
Changes = dict[tuple[str | None, str], set[str]]

_STATE = """
SELECT
    pg_current_snapshot()::text, coalesce(replica_position, ''),
    coalesce(replica_position_at < now() - make_interval(days => %s), true),
    concat_ws('/', s.system_identifier, c.timeline_id, d.oid)
FROM cells, pg_control_system() s, pg_control_checkpoint() c, pg_database d
WHERE cells.id = %s AND d.datname = current_database()
"""
_CHANGES = """
SELECT DISTINCT tenant_id::text, noun, key FROM replica_changes
WHERE xact >= pg_snapshot_xmin(%(last)s::pg_snapshot) AND NOT pg_visible_in_snapshot(xact, %(last)s::pg_snapshot)
LIMIT %(limit)s
"""
_REPORT = "UPDATE cells SET replica_position = %s, replica_position_at = now() WHERE id = %s"

# Expected failures of databases and disks. All other errors are faults of Admit and are logged with a traceback.
_EXPECTED_ERRORS = (psycopg.Error, SQLAlchemyError, AdmitError, ReplicaError, OSError)
# Nouns whose rows are part of radiusd's configuration.
_CONFIGURATION_NOUNS = ("slot", "nas", "tenant")

_log = logging.getLogger(__name__)


class ReplicaSync:
    """Writes a cell's replica in one thread. The thread continues while PostgreSQL does not respond."""

    def __init__(
        self,
        cell_id: CellId,
        engine: Engine,
        writer: ReplicaWriter,
        *,
        dictionary: ReplyDictionary | None,
        reseal: Reseal,
        alarms: Alarms,
        before_commit: BeforeCommit | None = None,
        claims_of: ClaimsFileLookup = no_claims_file,
    ) -> None:
        """Create the synchronization. The caller closes `writer`.

        `dictionary` is used to check the replies of policies. `claims_of` returns the name of a pool's claim file.
        """
        self.counters: Counter[str] = Counter()
        # Called after a change that affects radiusd's configuration: of a slot, or of a NAS with its own secret or
        # exemption.
        self.on_configuration: Callable[[], None] = _no_callback
        # Set if the replica is damaged. The thread then rebuilds it.
        self.rebuild_wanted = threading.Event()
        # Time in epoch seconds when the replica last equalled the database; None if it never did.
        self.caught_up_at: int | None = None
        # The replica contains everything that was committed before this time (epoch microseconds).
        self.read_at = 0
        self._cell_id = cell_id
        self._engine = engine
        self._snapshots = engine.execution_options(isolation_level="REPEATABLE READ")
        self._writer = writer
        self._alarms = alarms
        self._before_commit = before_commit
        self.session_counts = SessionCounts()
        self._mirror = ReplicaLoader(cell_id, replies=dictionary, reseal=reseal, alarms=alarms, claims_of=claims_of)
        complete = writer.meta("complete") == "1" and writer.meta("cell") == str(cell_id)
        self._position = writer.meta("position") if complete else ""
        self._database = writer.meta("database")
        # The last position that PostgreSQL has certainly stored.
        self._reported = self._position
        self._moved_at = float("-inf")
        self._servers_at = time.monotonic()
        self._notified = False

    @property
    def complete(self) -> bool:
        """Whether the replica is complete, so that the cell can serve from it."""
        return bool(self._position)

    def run(self, stop: threading.Event) -> None:
        backoff = 0.0
        while not stop.is_set():
            started = time.monotonic()
            try:
                self._follow(stop)
            except Exception as exc:  # house-rule: keep following, even if our code cannot handle a row
                lasted = time.monotonic() - started > _MAX_BACKOFF_SECONDS
                backoff = 0.2 if lasted else min(max(0.2, backoff * 2), _MAX_BACKOFF_SECONDS)
                self.counters["failures"] += 1
                if not isinstance(exc, _EXPECTED_ERRORS):
                    _log.exception("cannot update the replica")
                if isinstance(exc, ReplicaDamaged):
                    self._rebuild()
                self._alarms.report(
                    "replica-sync",
                    f"The cell serves older data, because it cannot read changes: {first_error_line(exc)}",
                )
                stop.wait(backoff)

    def catch_up(self) -> bool:
        """Apply new changes to the replica. Returns whether there were any changes.

        Raises errors of the database and the replica.
        """
        began = epoch_microseconds()
        with session_scope(CellScope(self._cell_id), engine=self._snapshots) as session:
            cursor = driver_connection(session).cursor()
            row = cursor.execute(_STATE, (KEEP_DAYS - 1, self._cell_id)).fetchone()
            if row is None:
                raise NotFound(
                    f"The database has no cell {self._cell_id}.",
                    remedy="Restart the agent, which then registers the cell.",
                )
            snapshot, stored, too_old, database = row
            changes = None if too_old or not self._is_same_database(stored, database) else self._read_changes(cursor)
            if changes is not None and self._have_certificates_changed(cursor):
                changes.setdefault((None, "authority"), set())
            changed = changes is None or bool(changes)
            if changed or self._should_advance_position():
                self._apply(session, changes, snapshot, database)
        if self._reported != self._position:
            self._report()
        self.caught_up_at = epoch_seconds()
        self.read_at = began
        if changes is None or any(noun in _CONFIGURATION_NOUNS for _, noun in changes):
            self.on_configuration()
        return changed

    def _follow(self, stop: threading.Event) -> None:
        with self._listen() as listener:
            listener.execute("LISTEN replica_changes")
            self._rebuild_if_requested()
            self.catch_up()
            self._alarms.clear("replica-sync")
            while not stop.is_set():
                self._rebuild_if_requested()
                self._notified |= any(True for _ in listener.notifies(timeout=POLL_SECONDS, stop_after=1))
                while self.catch_up() and not stop.is_set():
                    continue

    def _listen(self) -> psycopg.Connection:
        url = self._engine.url.set(drivername="postgresql").render_as_string(hide_password=False)
        return connect(url, autocommit=True, application_name="admit-listen")

    def _have_certificates_changed(self, cursor: psycopg.Cursor) -> bool:
        """Whether the current server certificate of a tenant changed because time passed.

        The function compares the certificates only every SERVER_CERTIFICATE_SECONDS.
        """
        if time.monotonic() < self._servers_at + SERVER_CERTIFICATE_SECONDS:
            return False
        self._servers_at = time.monotonic()
        now = {number: slot.server_certificate for number, slot in self._mirror.read_slots(cursor).items()}
        held = {number: slot.server_certificate for number, slot in self._writer.slots().items()}
        return any(held[number] != serial for number, serial in now.items() if number in held)

    def _should_advance_position(self) -> bool:
        pause = ADVANCE_NOTIFIED_SECONDS if self._notified else ADVANCE_SECONDS
        return time.monotonic() >= self._moved_at + pause

    def _is_same_database(self, stored: str, database: str) -> bool:
        """Whether the database is still the database from which the replica was filled.

        An emptied or restored database has another replica position. A copy of the database, or a database restored to
        a point in time, has another identity.
        """
        return bool(self._position) and stored in (self._position, self._reported) and database == self._database

    def _read_changes(self, cursor: psycopg.Cursor) -> Changes | None:
        """Changed keys by tenant and kind of object; None if more than MAX_CHANGES keys changed."""
        parameters = {"last": self._position, "limit": MAX_CHANGES + 1}
        rows = cursor.execute(_CHANGES, parameters).fetchall()
        if len(rows) > MAX_CHANGES:
            return None
        changes: Changes = {}
        for tenant_id, noun, key in rows:
            changes.setdefault((tenant_id, noun), set()).add(key)
        return changes

    def _apply(self, session: Session, changes: Changes | None, snapshot: str, database: str) -> None:
        with self._writer.begin() as batch:
            if changes is None:
                self._load_all(session, batch)
            else:
                self._load_changes(session, batch, changes)
            self._count_sessions(session, batch, changes)
            batch.set_meta("position", snapshot)
            batch.set_meta("database", database)
            batch.set_meta("cell", str(self._cell_id))
            batch.set_meta("complete", "1")
        self._position, self._database = snapshot, database
        self._moved_at = time.monotonic()
        self._notified = False

    def _count_sessions(self, session: Session, batch: WriteBatch, changes: Changes | None) -> None:
        counts = self.session_counts
        if changes is None or any(noun in ("policy", "slot", "tenant") for _, noun in changes):
            counts.request_recount()
        cursor = driver_connection(session).cursor()
        tenants = {record.tenant_id: record.tenant for record in batch.slots().values()}
        counts.recount_if_due(cursor, batch, tenants)
        for (tenant_id, noun), keys in (changes or {}).items():
            if noun == SESSION and tenant_id in counts.counted:
                counts.refresh(cursor, batch, tenant_id, tenants[tenant_id], keys)

    def _load_all(self, session: Session, batch: WriteBatch) -> None:
        started = time.monotonic()
        connection = driver_connection(session)
        batch.clear()
        self._mirror.forget_alarms()
        slots = self._mirror.read_slots(connection.cursor())
        rows = 0
        for number, record in slots.items():
            batch.put_slot(number, record)
            rows += self._mirror.load_tenant(connection, batch, TenantKey(record.tenant, record.tenant_id))
        self._mirror.put_authorities(connection.cursor(), batch)
        self._call_before_commit(session, slots)
        self.counters["full_loads"] += 1
        _log.info("replica loaded: %d tenants, %d records in %.1f s", len(slots), rows, time.monotonic() - started)

    def _load_changes(self, session: Session, batch: WriteBatch, changes: Changes) -> None:
        connection = driver_connection(session)
        cursor = connection.cursor()
        slots = batch.slots()
        arrived: set[str] = set()
        if self._touches_slots(cursor, changes):
            slots, arrived = self._refresh_slots(connection, batch, slots)
            self._mirror.put_authorities(cursor, batch)
        tenants = {record.tenant_id: TenantKey(record.tenant, record.tenant_id) for record in slots.values()}
        for (tenant_id, noun), keys in changes.items():
            if tenant_id in tenants and tenant_id not in arrived and noun in self._mirror.nouns:
                self._mirror.refresh(cursor, batch, tenants[tenant_id], noun, keys)
                self.counters["changes"] += len(keys)
        if self._touches_slots(cursor, changes):
            self._call_before_commit(session, slots)

    def _touches_slots(self, cursor: psycopg.Cursor, changes: Changes) -> bool:
        return any(
            noun in ("slot", "tenant", "authority")
            or (noun == "certificate" and tenant_id and self._mirror.holds_server_certificate(cursor, tenant_id, keys))
            for (tenant_id, noun), keys in changes.items()
        )

    def _refresh_slots(
        self, connection: psycopg.Connection, batch: WriteBatch, before: dict[int, SlotRecord]
    ) -> tuple[dict[int, SlotRecord], set[str]]:
        """Update the slots (port pairs of the cell).

        Loads all rows of each tenant that has just moved to this cell, because such rows may have changed long ago.

        Returns the current slots, and the ids of the tenants that have just moved to this cell.
        """
        slots = self._mirror.read_slots(connection.cursor())
        known = {record.tenant_id: record.tenant for record in before.values()}
        present = {record.tenant_id: record.tenant for record in slots.values()}
        for number in before.keys() - slots.keys():
            batch.delete_slot(number)
        for number, record in slots.items():
            batch.put_slot(number, record)
        for tenant_id in known.keys() - present.keys():
            batch.clear_tenant(known[tenant_id])
            self._mirror.forget_alarms(known[tenant_id])
        arrived = present.keys() - known.keys()
        for tenant_id in arrived:
            batch.clear_tenant(present[tenant_id])
            self._mirror.load_tenant(connection, batch, TenantKey(present[tenant_id], tenant_id))
        return slots, set(arrived)

    def _call_before_commit(self, session: Session, slots: Mapping[int, SlotRecord]) -> None:
        if self._before_commit is not None:
            self._before_commit(session, slots)

    def _report(self) -> None:
        with session_scope(CellScope(self._cell_id), engine=self._engine) as session:
            driver_connection(session).execute(_REPORT, (self._position, self._cell_id))
        self._reported = self._position

    def _rebuild_if_requested(self) -> None:
        if self.rebuild_wanted.is_set():
            self.rebuild_wanted.clear()
            self._rebuild()

    def _rebuild(self) -> None:
        self._writer.rebuild()
        self._position = ""
        self.counters["rebuilds"] += 1


def open_replica(directory: Path, alarms: Alarms) -> ReplicaWriter:
    """Open the replica if the whole replica is readable.

    If the replica is not readable, create a new replica beside it and raise an alarm.
    """
    try:
        check_replica(directory)
        return ReplicaWriter(directory)
    except (ReplicaDamaged, ReplicaMissing) as exc:
        alarms.report_event("replica-rebuilt", f"The replica was unusable and was rebuilt: {exc}")
        return ReplicaWriter(directory, fresh=True)


def _no_callback() -> None:
    """Do nothing."""
