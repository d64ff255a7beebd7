"""Listener for status changes (nac.certificates.status_changes), for processes that cache statuses."""

import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from uuid import UUID

import psycopg
from psycopg import sql
from sqlalchemy import Engine

from nac.certificates.status_changes import STATUS_CHANNEL
from nac.kit.db import connect

_log = logging.getLogger("admit.status")

# A cache is valid for this time after the last contact with PostgreSQL, because a dead connection reports no changes.
_VALID_SECONDS = 1.0
_POLL_SECONDS = 0.3
_STATEMENT_SECONDS = 2.0
_PAUSE_SECONDS = 0.5


class StatusListener:
    """A thread with its own database connection that reports status changes.

    The thread calls `forget` with an authority's id after a change, and with None if it may have missed changes. Then
    `forget` must drop all cached data of this authority or, for None, of all authorities.
    """

    def __init__(self, engine: Engine, forget: Callable[[UUID | None], None]) -> None:
        self._url = engine.url.set(drivername="postgresql").render_as_string(hide_password=False)
        self._forget = forget
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="status-feed", daemon=True)
        self._until = float("-inf")

    @property
    def current(self) -> bool:
        """Whether the listener has reported all changes that are more than a second old."""
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
                    self._tell(notification.payload)

    def _tell(self, payload: str) -> None:
        authority_id = None
        with suppress(ValueError):
            authority_id = UUID(payload)
        self._forget(authority_id)
