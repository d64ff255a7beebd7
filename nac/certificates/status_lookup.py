"""Fast look-up of certificate statuses for OCSP, with one prepared statement per request.

The module also contains the listener for status changes (`status_changes`), for processes that cache statuses.
"""

import logging
import threading
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from datetime import datetime
from queue import Empty, SimpleQueue
from typing import NamedTuple
from uuid import UUID

import psycopg
from psycopg import sql
from sqlalchemy import Engine

from nac.certificates.status_changes import STATUS_CHANNEL
from nac.kit.db import connect
from nac.kit.errors import DatabaseUnavailable

# Each connection prepares the statement on first use. The SQL function returns the rows that AuthorityScope can read.
_STATUSES_SQL = "SELECT * FROM certificate_statuses(%s, %s)"
_TIMEOUT_OPTION = "-c statement_timeout=5000"


class StatusRow(NamedTuple):
    serial: bytes
    # One of: intended, abandoned, valid, suspended, revoked.
    status: str
    revoked_at: datetime | None
    revocation_reason: str
    not_before: datetime


class StatusLookup:
    """Reads certificate statuses, with a pool of database connections for several threads."""

    def __init__(self, engine: Engine) -> None:
        self._url = engine.url.set(drivername="postgresql").render_as_string(hide_password=False)
        self._idle: SimpleQueue[psycopg.Connection] = SimpleQueue()

    def read(self, authority_id: UUID, serials: Collection[bytes]) -> list[StatusRow]:
        """Return the status of each certificate in `serials` that the authority issued. Raises DatabaseUnavailable."""
        parameters = (authority_id, list(serials))
        try:
            while (connection := self._take()) is not None:
                try:
                    return self._ask(connection, parameters)
                except psycopg.OperationalError:
                    # After a restart of PostgreSQL all idle connections fail. The loop drops these connections.
                    continue
            connection = connect(self._url, autocommit=True, application_name="admit-ocsp", options=_TIMEOUT_OPTION)
            return self._ask(connection, parameters)
        except psycopg.Error as exc:
            reason = str(exc).partition("\n")[0]
            raise DatabaseUnavailable(reason=reason, remedy="Check that PostgreSQL is running.") from exc

    def close(self) -> None:
        while (connection := self._take()) is not None:
            connection.close()

    def _take(self) -> psycopg.Connection | None:
        try:
            return self._idle.get_nowait()
        except Empty:
            return None

    def _ask(self, connection: psycopg.Connection, parameters: tuple[UUID, list[bytes]]) -> list[StatusRow]:
        try:
            rows = connection.execute(_STATUSES_SQL, parameters, prepare=True).fetchall()
        except BaseException:
            connection.close()
            raise
        self._idle.put(connection)
        return [StatusRow(*row) for row in rows]


_log = logging.getLogger("admit.status")

# Caches are valid only for this time after a response of PostgreSQL, because a dead connection reports no changes.
_VALID_SECONDS = 1.0
_POLL_SECONDS = 0.3
_STATEMENT_SECONDS = 2.0
_PAUSE_SECONDS = 0.5


class StatusListener:
    """A thread with its own database connection that reports status changes.

    After a change, the thread calls `forget` with the authority's id, and `forget` must drop all cached data of this
    authority. If the thread may have missed changes, it calls `forget` with None to drop the data of all authorities.
    """

    def __init__(self, engine: Engine, forget: Callable[[UUID | None], None]) -> None:
        self._url = engine.url.set(drivername="postgresql").render_as_string(hide_password=False)
        self._forget = forget
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="status-feed", daemon=True)
        self._until = float("-inf")

    @property
    def current(self) -> bool:
        """Whether the listener has reported all changes except those of the last second."""
        return time.monotonic() < self._until

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self._follow()
            except psycopg.Error as exc:
                _log.warning("no status changes from the database, OCSP responses are not cached: %s", exc)
            except Exception:  # house-rule: if the thread ended, nothing would be cached until a restart
                _log.exception("no status changes from the database")
            self._until = float("-inf")
            self._stop.wait(_PAUSE_SECONDS)

    def _follow(self) -> None:
        with connect(
            self._url, autocommit=True, application_name="admit-status", statement_seconds=_STATEMENT_SECONDS
        ) as connection:
            connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(STATUS_CHANNEL)))
            self._forget(None)
            while not self._stop.is_set():
                started = time.monotonic()
                connection.execute("SELECT 1")
                self._until = started + _VALID_SECONDS
                for notification in connection.notifies(timeout=_POLL_SECONDS, stop_after=1):
                    self._notify(notification.payload)

    def _notify(self, payload: str) -> None:
        authority_id = None
        with suppress(ValueError):
            authority_id = UUID(payload)
        self._forget(authority_id)
