"""The status of single certificates by one statement each, as quick as PostgreSQL can be asked: for many a second."""

from collections.abc import Collection
from datetime import datetime
from queue import Empty, SimpleQueue
from typing import NamedTuple
from uuid import UUID

import psycopg
from sqlalchemy import Engine

from nac.db import connect
from nac.errors import DatabaseUnavailable

# Prepared at its first use, on each connection. The function shows what the authority's scope would.
_STATUSES = "SELECT * FROM certificate_statuses(%s, %s)"
_TIMEOUT = "-c statement_timeout=5000"


class StatusRow(NamedTuple):
    serial: bytes
    # intended | abandoned | valid | suspended | revoked
    status: str
    revoked_at: datetime | None
    revocation_reason: str
    not_before: datetime


class StatusLookUp:
    """For several threads: as many connections as ask at once, kept for the next question."""

    def __init__(self, engine: Engine) -> None:
        self._url = engine.url.set(drivername="postgresql").render_as_string(hide_password=False)
        self._idle: SimpleQueue[psycopg.Connection] = SimpleQueue()

    def read(self, authority_id: UUID, serials: Collection[bytes]) -> list[StatusRow]:
        """Of those that the authority has recorded. Raises DatabaseUnavailable."""
        asked = (authority_id, list(serials))
        try:
            while (connection := self._take()) is not None:
                try:
                    return self._ask(connection, asked)
                except psycopg.OperationalError:
                    # PostgreSQL was restarted since: so with the others, and then a new one tells.
                    continue
            connection = connect(self._url, autocommit=True, application_name="admit-ocsp", options=_TIMEOUT)
            return self._ask(connection, asked)
        except psycopg.Error as exc:
            raise DatabaseUnavailable(str(exc).partition("\n")[0], remedy="Is PostgreSQL up?") from exc

    def close(self) -> None:
        while (connection := self._take()) is not None:
            connection.close()

    def _take(self) -> psycopg.Connection | None:
        try:
            return self._idle.get_nowait()
        except Empty:
            return None

    def _ask(self, connection: psycopg.Connection, asked: tuple[UUID, list[bytes]]) -> list[StatusRow]:
        try:
            rows = connection.execute(_STATUSES, asked, prepare=True).fetchall()
        except BaseException:
            connection.close()
            raise
        self._idle.put(connection)
        return [StatusRow(*row) for row in rows]
