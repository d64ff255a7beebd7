"""Fast look-up of certificate statuses for OCSP, with one prepared statement per request."""

from collections.abc import Collection
from datetime import datetime
from queue import Empty, SimpleQueue
from typing import NamedTuple
from uuid import UUID

import psycopg
from sqlalchemy import Engine

from nac.kit.db import connect
from nac.kit.errors import DatabaseUnavailable

# Each connection prepares the statement on first use. The function returns the rows visible in AuthorityScope.
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
    """A pool of database connections for several threads."""

    def __init__(self, engine: Engine) -> None:
        self._url = engine.url.set(drivername="postgresql").render_as_string(hide_password=False)
        self._idle: SimpleQueue[psycopg.Connection] = SimpleQueue()

    def read(self, authority_id: UUID, serials: Collection[bytes]) -> list[StatusRow]:
        """Return the status of each serial number that the authority issued. Raises DatabaseUnavailable."""
        parameters = (authority_id, list(serials))
        try:
            while (connection := self._take()) is not None:
                try:
                    return self._ask(connection, parameters)
                except psycopg.OperationalError:
                    # After a restart of PostgreSQL all idle connections fail. The loop drops each of them.
                    continue
            connection = connect(self._url, autocommit=True, application_name="admit-ocsp", options=_TIMEOUT_OPTION)
            return self._ask(connection, parameters)
        except psycopg.Error as exc:
            raise DatabaseUnavailable(str(exc).partition("\n")[0], remedy="Check that PostgreSQL is running.") from exc

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
