"""Engines: one for each process and role."""

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

from nac.db.waiting import STATEMENT_SECONDS, BoundedConnection, BoundedPool, ServerSilent, connect
from nac.errors import InvalidInput

_USED_AT = "admit.used_at"
_FRESH_SECONDS = 0.5
_POOL = 5
# Of one engine, where nothing else is said.
CONNECTIONS_MOST = 2 * _POOL
_MOST_DESCRIBED = 2_000
_described: dict[tuple[object, ...], list[Column] | None] = {}
_default: Engine | None = None


def make_engine(
    url: str,
    *,
    pool_size: int = _POOL,
    application_name: str = "admit",
    settings: Sequence[str] = (),
    wait_seconds: float = 30,
    keeps_all: bool = False,
    statement_seconds: float = STATEMENT_SECONDS,
) -> Engine:
    """An engine for `url` ("postgresql://role@/database?host=/path/to/socket/directory"); nothing connects yet.

    `settings` of PostgreSQL ("name=value") hold for each connection. Twice `pool_size` may be open; where all of them
    are in use, one is waited for so long. Half of them are kept, or with `keeps_all` each that was ever opened.
    A statement without an answer for `statement_seconds` fails, unless a `wait_budget` bounds it.
    """
    parsed = make_url(url)
    if parsed.get_backend_name() != "postgresql":
        raise InvalidInput(
            f"{parsed.get_backend_name()} is no supported database.", place="database URL", remedy="Use postgresql://"
        )
    engine = create_engine(
        parsed.set(drivername="postgresql+psycopg"),
        pool_size=2 * pool_size if keeps_all else pool_size,
        max_overflow=0 if keeps_all else pool_size,
        poolclass=BoundedPool,
        # What was used last knows statements and tables, and need not be asked whether it is still there.
        pool_use_lifo=True,
        pool_timeout=wait_seconds,
        native_inet_types=False,
        connect_args={
            "application_name": application_name,
            "options": _options(parsed, settings),
            "cursor_factory": _Cursor,
        },
    )
    _bound_waiting(engine, statement_seconds)
    _ping_after_idling(engine)
    # Rows that are inserted together go in one statement for a thousand, and so do those that triggers add.
    engine.dialect.use_insertmanyvalues_wo_returning = True
    return engine


class _Cursor(psycopg.Cursor[Any]):
    """SQLAlchemy asks after each statement which columns its rows have, and the driver makes an object of each: it is
    the same for all of a kind."""

    @property
    def description(self) -> list[Column] | None:
        result = self.pgresult
        if result is None or not result.nfields:
            return super().description
        kinds = tuple(
            (result.fname(n), result.ftype(n), result.fmod(n), result.fsize(n)) for n in range(result.nfields)
        )
        found = _described.get(kinds)
        if found is None:
            found = super().description
            if len(_described) >= _MOST_DESCRIBED:
                _described.clear()
            _described[kinds] = found
        return found


def _bound_waiting(engine: Engine, statement_seconds: float) -> None:
    @event.listens_for(engine, "do_connect")
    def open_bounded(
        dialect: Dialect, record: ConnectionPoolEntry, arguments: list[Any], parameters: dict[str, Any]
    ) -> BoundedConnection:
        return connect(*arguments, statement_seconds=statement_seconds, **parameters)

    @event.listens_for(engine, "handle_error")
    def keep_others(context: ExceptionContext) -> None:
        """One slow statement costs the others no connection. Those that are silent too are found by their ping."""
        if isinstance(context.original_exception, ServerSilent):
            context.invalidate_pool_on_disconnect = False


def _ping_after_idling(engine: Engine) -> None:
    """A restarted PostgreSQL costs the pool one failed ping each, not one failed request each. What was used a moment
    ago is not asked, which would be one round trip in five, unless the server has hung up or said something since."""

    @event.listens_for(engine, "checkin")
    def note(connection: object, record: ConnectionPoolEntry) -> None:
        record.info[_USED_AT] = monotonic()

    @event.listens_for(engine, "checkout")
    def ping(connection: DBAPIConnection, record: ConnectionPoolEntry, proxy: object) -> None:
        used_at = record.info.get(_USED_AT)
        if used_at is None or (monotonic() - used_at < _FRESH_SECONDS and not _has_news(connection)):
            return
        try:
            engine.dialect.do_ping(connection)
        except engine.dialect.loaded_dbapi.Error as exc:
            # The pool makes a new one.
            raise DisconnectionError from exc


def _has_news(connection: DBAPIConnection) -> bool:
    """Of one that is idle: what is there to be read is a notice, a farewell or the end."""
    try:
        asked = select.poll()
        asked.register(connection.fileno(), select.POLLIN)
        return bool(asked.poll(0))
    except (psycopg.Error, OSError):
        return True


def _options(url: URL, settings: Sequence[str]) -> str:
    """What `url` asks for, and no compiler, which estimates of tables that were never analysed call for in vain: half a
    second of it for a statement that takes milliseconds."""
    asked = url.query.get("options", ())
    ours = [f"-c {setting}" for setting in ("jit=off", *settings)]
    return " ".join([*ours, *([asked] if isinstance(asked, str) else asked)])


def use_engine(engine: Engine | None) -> None:
    """Make `engine` the process's own: the one that `session_scope` takes where none is given."""
    global _default
    _default = engine


def process_engine() -> Engine:
    if _default is None:
        raise RuntimeError("this process has no database engine: call nac.db.use_engine(make_engine(url)) at start")
    return _default
