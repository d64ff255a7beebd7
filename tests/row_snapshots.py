"""Common initial data of tests. The services create it once, and its rows are restored in a tenth of the time.

A state of the database is the list of steps applied to an empty database. If the database is in a known state without
later writes, the next step has a known result. Its changed rows are therefore saved and restored. A restore runs no
triggers. A test that needs their notifications uses the services.
"""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any, LiteralString, TypeVar

import psycopg
from psycopg import sql
from sqlalchemy import Engine

from tests.postgres import Database

T = TypeVar("T")

# Functions of the session, so that PostgreSQL plans each statement once.
_TABLES = """
SELECT relname, array_agg(attname ORDER BY attnum) FROM pg_class JOIN pg_attribute ON attrelid = pg_class.oid
WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition
    AND relname <> 'alembic_version' AND attnum > 0 AND NOT attisdropped AND attgenerated = ''
GROUP BY relname ORDER BY relname
"""
# A registered cell reports the current time.
_HEARD = sql.SQL("UPDATE cells SET agent_seen_at = now();")
_FUNCTION = "CREATE FUNCTION pg_temp.{} () RETURNS xid8 LANGUAGE plpgsql AS $body$ BEGIN {} RETURN {}; END $body$"
_NOW = "SELECT pg_snapshot_xmin(s)::text, pg_snapshot_xmax(s)::text FROM pg_current_snapshot() s"
_MOST_STATES = 100

State = tuple[str, ...]
# For each table: the columns that identify its rows.
Prints = dict[str, str]


@dataclass(frozen=True)
class RowSnapshot:
    value: Any
    prints: Prints
    function: sql.Identifier


class SnapshotStore:
    """Empties the database and restores saved states in it.

    Its connection remains open, because a new connection must read every table's definition, which takes longer than
    many tests.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._open: psycopg.Connection | None = None
        self._forget()

    def _forget(self) -> None:
        self._kept: dict[State, RowSnapshot] = {}
        self._seen: set[State] = set()
        self._state: State | None = None
        # The first transaction that could have written since the database reached this state.
        self._mark = ""

    def close(self) -> None:
        if self._open is not None:
            self._open.close()
            self._open = None
            self._forget()

    def empty(self) -> None:
        """Delete every row except the schema's version, with triggers and foreign keys disabled."""
        try:
            self._connection().execute("SELECT pg_temp.empty()")
        except psycopg.OperationalError:
            # The test has restarted the server.
            self.close()
            self._connection().execute("SELECT pg_temp.empty()")
        self._be(())

    def __call__(self, make: Callable[..., T], *given: Any, **named: Any) -> T:
        """Run `make(...)`, or restore its rows and value.

        Its result must be equal for arguments with equal repr, engines excepted.
        """
        arguments = (*enumerate(given), *named.items())
        rest = [(name, value) for name, value in arguments if not isinstance(value, Engine)]
        before = self._state if self._is_untouched() else None
        if before is None:
            return make(*given, **named)
        state = (*before, f"{make.__module__}.{make.__qualname__} {rest}")
        if state in self._kept:
            return self._lay(state)
        value = make(*given, **named)
        if state in self._seen and len(self._kept) < _MOST_STATES:
            self._keep(before, state, value)
        self._seen.add(state)
        return value

    def _is_untouched(self) -> bool:
        oldest, following = self._connection().execute(_NOW).fetchone()
        return oldest == following == self._mark

    def _be(self, state: State) -> None:
        oldest, following = self._connection().execute(_NOW).fetchone()
        self._state, self._mark = state if oldest == following else None, following

    def _lay(self, state: State) -> Any:
        kept = self._kept[state]
        call = sql.SQL("SELECT pg_temp.{}()::text").format(kept.function)
        (own,) = self._connection().execute(call).fetchone()
        # A different transaction id means that autovacuum, or another writer, has interfered.
        is_alone = own == self._mark
        self._be(state)
        self._state = self._state if is_alone else None
        return kept.value

    def _keep(self, before: State, state: State, value: Any) -> None:
        connection = self._connection()
        known = self._kept[before].prints if before else {}
        prints = self._prints()
        number = len(self._kept)
        steps: list[sql.Composable] = []
        for table in sorted(prints.keys() | known.keys()):
            if prints.get(table) == known.get(table):
                continue
            parts = {
                "table": sql.Identifier(table),
                "columns": sql.SQL(", ").join(map(sql.Identifier, self._columns[table])),
                "kept": sql.Identifier(f"standing_{number}_{table}"[:63]),
            }
            connection.execute(sql.SQL("CREATE TEMP TABLE {kept} AS TABLE {table}").format(**parts))
            if table in known:
                steps.append(sql.SQL("DELETE FROM {table};").format(**parts))
            step = "INSERT INTO {table} ({columns}) OVERRIDING SYSTEM VALUE SELECT {columns} FROM {kept};"
            steps.append(sql.SQL(step).format(**parts))
        steps.append(_HEARD)
        function = sql.Identifier(f"lay_{number}")
        self._define(function, steps, "pg_current_xact_id()")
        self._kept[state] = RowSnapshot(value, prints, function)
        self._be(state)

    def _prints(self) -> Prints:
        """Fingerprints of the tables that have rows."""
        each = sql.SQL(
            "SELECT {name}, md5(string_agg(t::text, ',' ORDER BY t::text)) FROM {table} t HAVING count(*) > 0"
        )
        union = sql.SQL(" UNION ALL ").join(
            each.format(name=sql.Literal(table), table=sql.Identifier(table)) for table in self._columns
        )
        return dict(self._connection().execute(union).fetchall())

    def _define(self, name: sql.Identifier, steps: list[sql.Composable], returned: LiteralString) -> None:
        body = sql.SQL(" ").join(steps)
        self._connection().execute(sql.SQL(_FUNCTION).format(name, body, sql.SQL(returned)))

    def _connection(self) -> psycopg.Connection:
        if self._open is None:
            self._open = psycopg.connect(self._database.superuser_url, autocommit=True)
            self._open.execute("SET session_replication_role = replica")
            self._columns: dict[str, list[str]] = dict(self._open.execute(_TABLES).fetchall())
            steps = [sql.SQL("DELETE FROM {};").format(sql.Identifier(table)) for table in self._columns]
            self._define(sql.Identifier("empty"), steps, "NULL")
        return self._open


def snapshotted(fixture: Callable[..., T]) -> Callable[..., T]:
    """Decorates a fixture, so that its result is restored if it was created before."""
    signature = inspect.signature(fixture)
    standing = inspect.Parameter("standing", inspect.Parameter.KEYWORD_ONLY)

    @wraps(fixture)
    def laid(*, standing: SnapshotStore, **given: Any) -> T:
        return standing(fixture, **given)

    laid.__signature__ = signature.replace(parameters=[*signature.parameters.values(), standing])  # type: ignore[attr-defined]
    return laid
