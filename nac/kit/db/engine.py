"""Database engines. A process has one engine for each database role that the process uses."""

import select
from collections.abc import Sequence
from time import monotonic
from typing import Any

import psycopg
from psycopg import Column
from sqlalchemy import URL, Engine, create_engine, event, make_url
from sqlalchemy.engine import Dialect, ExceptionContext
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import DisconnectionError
from sqlalchemy.pool import ConnectionPoolEntry

from nac.kit.db.timeouts import STATEMENT_SECONDS, BoundedConnection, BoundedPool, ServerSilent, connect
from nac.kit.errors import InvalidInput

_USED_AT = "admit.used_at"
_FRESH_SECONDS = 0.5
_POOL_SIZE = 5
# Maximum number of open connections of an engine with the default pool size.
MAX_CONNECTIONS = 2 * _POOL_SIZE
_MAX_DESCRIPTIONS = 2_000
_descriptions: dict[tuple[object, ...], list[Column] | None] = {}
_process_engine: Engine | None = None


def make_engine(
    url: str,
    *,
    pool_size: int = _POOL_SIZE,
    application_name: str = "admit",
    settings: Sequence[str] = (),
    wait_seconds: float = 30,
    keeps_all: bool = False,
    statement_seconds: float = STATEMENT_SECONDS,
) -> Engine:
    """Return an engine for `url`, such as "postgresql://role@/database?host=/path/to/socket/directory".

    The first use of the engine opens a connection. `settings` ("name=value") are PostgreSQL settings of each
    connection. The engine opens at most twice `pool_size` connections. If all of them are in use, callers wait up to
    `wait_seconds`. Up to `pool_size` idle connections stay open; with `keeps_all`, all idle connections stay open. A
    statement fails after `statement_seconds` without an answer, unless `limit_waiting` sets a different time.
    """
    parsed = make_url(url)
    if parsed.get_backend_name() != "postgresql":
        raise InvalidInput(
            f"Unsupported database {parsed.get_backend_name()}.", place="database URL", remedy="Use postgresql://"
        )
    engine = create_engine(
        parsed.set(drivername="postgresql+psycopg"),
        pool_size=2 * pool_size if keeps_all else pool_size,
        max_overflow=0 if keeps_all else pool_size,
        poolclass=BoundedPool,
        # Use the most recently used connection first: its caches are warm, and it needs no ping.
        pool_use_lifo=True,
        pool_timeout=wait_seconds,
        native_inet_types=False,
        # Omit values from errors and logs, because values can be secrets.
        hide_parameters=True,
        connect_args={
            "application_name": application_name,
            "options": _connection_options(parsed, settings),
            "cursor_factory": _Cursor,
        },
    )
    _limit_waiting(engine, statement_seconds)
    _ping_idle_connections(engine)
    # Insert a thousand rows with each statement, even if the statement returns no columns.
    engine.dialect.use_insertmanyvalues_wo_returning = True
    return engine


class _Cursor(psycopg.Cursor[Any]):
    """Cursor that caches column descriptions by result type.

    SQLAlchemy reads the descriptions of the columns after each statement, and psycopg creates the descriptions slowly.
    """

    @property
    def description(self) -> list[Column] | None:
        result = self.pgresult
        if result is None or not result.nfields:
            return super().description
        kinds = tuple(
            (result.fname(n), result.ftype(n), result.fmod(n), result.fsize(n)) for n in range(result.nfields)
        )
        found = _descriptions.get(kinds)
        if found is None:
            found = super().description
            if len(_descriptions) >= _MAX_DESCRIPTIONS:
                _descriptions.clear()
            _descriptions[kinds] = found
        return found


def _limit_waiting(engine: Engine, statement_seconds: float) -> None:
    @event.listens_for(engine, "do_connect")
    def open_bounded(
        dialect: Dialect, record: ConnectionPoolEntry, arguments: list[Any], parameters: dict[str, Any]
    ) -> BoundedConnection:
        return connect(*arguments, statement_seconds=statement_seconds, **parameters)

    @event.listens_for(engine, "handle_error")
    def keep_others(context: ExceptionContext) -> None:
        """Keep the other connections in the pool open after a statement timed out on one connection.

        If other connections are broken too, the ping before their next use detects this.
        """
        if isinstance(context.original_exception, ServerSilent):
            context.invalidate_pool_on_disconnect = False


def _ping_idle_connections(engine: Engine) -> None:
    """Ping a connection before its use, so that no request fails after a restart of PostgreSQL.

    A recently used connection needs no ping if the server has sent nothing since the last use. This exception avoids
    pings before most uses, which would be a fifth of all round trips to the server.
    """

    @event.listens_for(engine, "checkin")
    def note(connection: object, record: ConnectionPoolEntry) -> None:
        record.info[_USED_AT] = monotonic()

    @event.listens_for(engine, "checkout")
    def ping(connection: DBAPIConnection, record: ConnectionPoolEntry, proxy: object) -> None:
        used_at = record.info.get(_USED_AT)
        if used_at is None or (monotonic() - used_at < _FRESH_SECONDS and not _has_pending_data(connection)):
            return
        try:
            engine.dialect.do_ping(connection)
        except engine.dialect.loaded_dbapi.Error as exc:
            # The pool then opens a new connection.
            raise DisconnectionError from exc


def _has_pending_data(connection: DBAPIConnection) -> bool:
    """Return whether the server has sent data on an idle connection (a notice or shutdown message) or has closed it."""
    try:
        poller = select.poll()
        poller.register(connection.fileno(), select.POLLIN)
        return bool(poller.poll(0))
    except (psycopg.Error, OSError):
        return True


def _connection_options(url: URL, settings: Sequence[str]) -> str:
    """Return the connection options: `jit=off`, `settings`, and the options of `url`.

    With JIT and wrong estimates for tables without statistics, PostgreSQL can compile a query for half a second.
    """
    configured = url.query.get("options", ())
    ours = [f"-c {setting}" for setting in ("jit=off", *settings)]
    return " ".join([*ours, *([configured] if isinstance(configured, str) else configured)])


def set_process_engine(engine: Engine | None) -> None:
    """Set the default engine of `session_scope` for this process."""
    global _process_engine
    _process_engine = engine


def get_process_engine() -> Engine:
    if _process_engine is None:
        raise RuntimeError("no database engine: call nac.kit.db.set_process_engine(make_engine(url)) at process start")
    return _process_engine
