"""A database in which each request sees one installation of its own, and its changes are rolled back. Everything runs
on one connection in one transaction; sessions commit savepoints."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

from sqlalchemy import Connection, event, text
from sqlalchemy.orm import Session

from nac.kit.db import make_engine, set_process_engine
from tests.postgres import Database

_SCOPES = ("tenant_id", "msp_id", "platform", "cell_id", "authority_id", "enrolment_id", "person_id", "credential_id")
_NO_SCOPE = text("SELECT " + ", ".join(f"set_config('admit.{name}', '', true)" for name in _SCOPES))
_TOUCHED = text(
    "SELECT DISTINCT coalesce(p.inhparent, s.relid)::regclass::text FROM pg_stat_xact_user_tables s"
    " LEFT JOIN pg_inherits p ON p.inhrelid = s.relid WHERE n_tup_ins + n_tup_upd + n_tup_del > 0"
)
# The conditions by which a statement is limited to the tenant or MSP of the service.
_NARROWING = re.compile(r"(?:\b\w+\.)?\b(?:tenant_id|msp_id) = (%\(\w+\)s(?:::UUID)?)")

Rows = dict[str, str]


class RequestIsolation:
    """`has_row_security`: with row-level security. Otherwise the application's role bypasses it."""

    def __init__(self, database: Database, *, has_row_security: bool) -> None:
        self.has_row_security = has_row_security
        self._engine = make_engine(database.superuser_url)
        self.connection = self._engine.connect()
        self.connection.connection.driver_connection.prepare_threshold = None
        self._before: dict[str, Rows] = {}
        # Whether conditions are removed at all, and whether they are now.
        self.strips = self.is_stripped = False
        event.listen(self._engine, "before_cursor_execute", self._strip, retval=True)

    def close(self) -> None:
        self.connection.close()
        self._engine.dispose()

    def _strip(self, connection, cursor, statement, parameters, context, executemany):
        # Values written by a statement do not change.
        if self.is_stripped and not statement.startswith("INSERT"):
            statement = _NARROWING.sub(r"\1 IS NOT NULL", statement)
        return statement, parameters

    @contextmanager
    def open(self) -> Iterator[None]:
        """Requests of this block see each other's changes; nobody else does."""
        connection = self.connection
        outer = connection.begin()
        if not self.has_row_security:
            connection.exec_driver_sql("ALTER ROLE admit_app BYPASSRLS")
        connection.exec_driver_sql("SET SESSION AUTHORIZATION admit_app")
        connection.begin_nested()
        set_process_engine(connection)  # type: ignore[arg-type]
        event.listen(Session, "after_begin", _forget_scope, insert=True)
        try:
            yield
        finally:
            self.is_stripped = False
            event.remove(Session, "after_begin", _forget_scope)
            set_process_engine(None)
            outer.rollback()
            connection.exec_driver_sql("RESET SESSION AUTHORIZATION")
            connection.rollback()

    @contextmanager
    def stripping(self) -> Iterator[None]:
        """Requests of this block run without the conditions of the services."""
        self.strips = True
        try:
            yield
        finally:
            self.strips = False

    @contextmanager
    def passing(self) -> Iterator[None]:
        """Within an open block: changes of this inner block are undone at its end."""
        point = self.connection.begin_nested()
        try:
            yield
        finally:
            point.rollback()

    def changed(self) -> dict[str, set[str]]:
        """Owners of the rows that the open block has changed, by table; "" for rows without an owner."""
        with self._as_superuser():
            tables = sorted(self.connection.scalars(_TOUCHED))
            now = rows_of(self.connection, tables)
        return {
            table: {
                owner for owner in {*rows, *self._before[table]} if rows.get(owner) != self._before[table].get(owner)
            }
            for table, rows in now.items()
        }

    def remember(self) -> None:
        """Record the initial state."""
        tables = self.connection.scalars(
            text(
                "SELECT oid::regclass::text FROM pg_class WHERE relnamespace = 'public'::regnamespace"
                " AND relkind IN ('r', 'p') AND NOT relispartition"
            )
        )
        self._before = rows_of(self.connection, tables.all())
        self.connection.rollback()

    @contextmanager
    def _as_superuser(self) -> Iterator[None]:
        self.connection.exec_driver_sql("RESET SESSION AUTHORIZATION")
        yield
        self.connection.exec_driver_sql("SET SESSION AUTHORIZATION admit_app")


def _forget_scope(session: Session, transaction: Any, connection: Connection) -> None:
    """Forget another transaction's scope, which ends with a savepoint here. The session sets its own afterwards."""
    connection.execute(_NO_SCOPE)


# How to find the owner of a row without an owner column.
_OWNERS = {
    "tenants": "t.id",
    "msps": "t.id",
    "people": "t.id",
    **dict.fromkeys(("sign_ins", "passkeys", "totps", "recovery_codes", "password_links"), "t.person_id"),
}


@cache
def _columns(connection: Connection) -> dict[str, list[str]]:
    """Columns of each table."""
    found = connection.execute(
        text(
            "SELECT oid::regclass::text, array_agg(attname::text) FROM pg_class JOIN pg_attribute ON attrelid = oid"
            " WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p') AND attnum > 0 GROUP BY 1"
        )
    )
    return {row[0]: row[1] for row in found}


def rows_of(connection: Connection, tables: Sequence[str]) -> dict[str, Rows]:
    """Return a digest of each owner's rows, for each table."""
    found: dict[str, Rows] = {table: {} for table in tables}
    if tables:
        query = " UNION ALL ".join(_digests(connection, table) for table in tables)
        for table, owner, digest in connection.exec_driver_sql(query):
            found[table][owner] = digest
    return found


def _digests(connection: Connection, table: str) -> str:
    of = [f"t.{name}::text" for name in ("tenant_id", "msp_id") if name in _columns(connection)[table]]
    owner = _OWNERS.get(table, f"coalesce({', '.join(of)}, '')" if of else "''")
    rows = "md5(string_agg(md5(t::text), '' ORDER BY md5(t::text)))"
    return f"SELECT '{table}', {owner}::text, {rows} FROM {table} t GROUP BY 2"
