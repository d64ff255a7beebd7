"""Ships quarantined records after the cause of their quarantine is fixed.

Run `python -m radius.agent.replay`. The agent may run at the same time.

One transaction writes the rows and removes the records from quarantine. So each record in quarantine is stored exactly
once. Records that still cannot be stored stay in quarantine.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass

import psycopg
from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from nac.kit.db import CellScope, driver_connection, session_scope
from nac.kit.errors import AdmitError
from nac.kit.ids import CellId
from nac.kit.settings import Settings, SettingsError, load_settings
from radius.agent.alarms import first_error_line
from radius.agent.paths import CellPaths, read_identity
from radius.agent.shipping.shipper import is_data_fault, list_cell_tenants, shipping_engine
from radius.agent.shipping.streams import AccountingStream, AuthStream, Stream, StreamBatch

BATCH_RECORDS = 500

_LIST_WAITING = """
SELECT id FROM quarantined_records WHERE cell_id = %s AND stream = %s AND (handed_over OR NOT %s) ORDER BY id
"""
# After a failed attempt, treat records from another cell like all other records in quarantine.
_MARK_OWN = "UPDATE quarantined_records SET handed_over = false WHERE handed_over AND id = ANY (%s)"
# Lock the row of the position. Only the process with this lock, a shipper or a replay, writes sessions
# (sessions/merge.py).
_LOCK_POSITION = "SELECT FROM journal_positions WHERE cell_id = %s AND stream = %s FOR UPDATE"
# Skip records that another replay has locked.
_LOCK_RECORDS = "SELECT id, payload FROM quarantined_records WHERE id = ANY (%s) ORDER BY id FOR UPDATE SKIP LOCKED"
_REMOVE = "DELETE FROM quarantined_records WHERE id = ANY (%s)"


@dataclass(frozen=True, slots=True)
class ReplayResult:
    shipped: int
    kept: int


def replay_cell(settings: Settings) -> dict[str, ReplayResult]:
    """Replay the quarantine of this machine's cell. Returns the result of each journal stream, by name of the stream.

    Raises AdmitError if the cell does not exist or the database does not respond.
    """
    cell_id = read_identity(CellPaths(settings.cell_dir))
    if cell_id is None:
        raise AdmitError(
            f"{settings.cell_dir} contains no cell.", remedy="Run this command on the machine of the cell's agent."
        )
    streams: tuple[Stream, ...] = (AuthStream(), AccountingStream())
    replayed = {}
    for stream in streams:
        engine = shipping_engine(settings.database_cell_url, stream)
        try:
            replayed[stream.name] = replay(stream, cell_id=cell_id, engine=engine)
        finally:
            engine.dispose()
    return replayed


def replay(stream: Stream, *, cell_id: CellId, engine: Engine, handed_over: bool = False) -> ReplayResult:
    """Try to ship each quarantined record of the stream. With `handed_over`, try only records from another cell.

    `engine` comes from `shipping_engine`. Raises errors of the database.
    """
    with session_scope(CellScope(cell_id), engine=engine) as session:
        rows = driver_connection(session).execute(_LIST_WAITING, (cell_id, stream.name, handed_over)).fetchall()
    waiting = [record_id for (record_id,) in rows]
    shipped = sum(
        _replay_batch(stream, cell_id, engine, waiting[start : start + BATCH_RECORDS])
        for start in range(0, len(waiting), BATCH_RECORDS)
    )
    if handed_over and shipped < len(waiting):
        with session_scope(CellScope(cell_id), engine=engine) as session:
            driver_connection(session).execute(_MARK_OWN, (waiting,))
    return ReplayResult(shipped, len(waiting) - shipped)


def _replay_batch(stream: Stream, cell_id: CellId, engine: Engine, ids: Sequence[int]) -> int:
    """Store the quarantined records with these ids. Returns the number of stored records.

    If PostgreSQL rejects the data, splits the records in halves until the rejected records are found.
    """
    try:
        with session_scope(CellScope(cell_id), engine=engine) as session:
            cursor = driver_connection(session).cursor()
            cursor.execute(_LOCK_POSITION, (cell_id, stream.name))
            work = stream.begin(list_cell_tenants(cursor, cell_id))
            taken = [
                record_id
                for record_id, payload in cursor.execute(_LOCK_RECORDS, (list(ids),)).fetchall()
                if _try_record(work, memoryview(payload))
            ]
            work.recall(cursor)
            # Do not call `finish`: it would log each conversation without an end as abandoned. The end may not be in
            # quarantine.
            work.write(cursor, cell_id)
            cursor.execute(_REMOVE, (taken,))
    except psycopg.Error as exc:
        if not is_data_fault(exc):
            raise
        if len(ids) == 1:
            return 0
        middle = len(ids) // 2
        return sum(_replay_batch(stream, cell_id, engine, half) for half in (ids[:middle], ids[middle:]))
    return len(taken)


def _try_record(work: StreamBatch, payload: memoryview) -> bool:
    try:
        work.take(payload)
    except Exception:  # house-rule: it is in quarantine because our code cannot handle it
        return False
    return True


def main() -> int:
    try:
        replayed = replay_cell(load_settings(required=("DATABASE_CELL_URL",)))
    except (SettingsError, AdmitError, SQLAlchemyError, psycopg.Error) as exc:
        print(f"admit replay: {first_error_line(exc)}", file=sys.stderr)  # noqa: T201
        return 1
    for stream, counted in replayed.items():
        print(f"{stream}: {counted.shipped} records shipped, {counted.kept} stay in quarantine")  # noqa: T201
    return 1 if any(counted.kept for counted in replayed.values()) else 0


if __name__ == "__main__":
    raise SystemExit(main())
