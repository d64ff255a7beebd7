"""What PostgreSQL tells of changes of status, for a process that keeps what it read (nac.certificates.status)."""

import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from uuid import UUID

import psycopg
from psycopg import sql
from sqlalchemy import Engine

from nac.certificates.status import CHANNEL
from nac.db import connect

_log = logging.getLogger("admit.status")

# What was kept counts for so long after PostgreSQL was last heard: a connection that died in silence shows no change.
_CURRENT_SECONDS = 1.0
_POLL_SECONDS = 0.3
_STATEMENT_SECONDS = 2.0
_PAUSE_SECONDS = 0.5


class StatusFeed:
    """A thread with a connection of its own.

    `forget` is called, in that thread, with an authority's id when the status of something it issued changed, and with
    None when changes may have been missed. What was read before the call must not be kept after it.
    """

    def __init__(self, engine: Engine, forget: Callable[[UUID | None], None]) -> None:
        self._url = engine.url.set(drivername="postgresql").render_as_string(hide_password=False)
        self._forget = forget
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="status-feed", daemon=True)
        self._until = float("-inf")

    @property
    def current(self) -> bool:
        """Whether every change up to a second ago was told."""
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
                _log.warning("changes of status do not arrive, answers are made anew for each request: %s", exc)
            except Exception:  # house-rule: without the thread nothing would ever be kept again
                _log.exception("changes of status do not arrive")
            self._until = float("-inf")
            self._stop.wait(_PAUSE_SECONDS)

    def _follow(self) -> None:
        with connect(
            self._url, autocommit=True, application_name="admit-status", statement_seconds=_STATEMENT_SECONDS
        ) as connection:
            connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(CHANNEL)))
            self._forget(None)
            while not self._stop.is_set():
                asked = time.monotonic()
                connection.execute("SELECT 1")
                self._until = asked + _CURRENT_SECONDS
                for notification in connection.notifies(timeout=_POLL_SECONDS, stop_after=1):
                    self._tell(notification.payload)

    def _tell(self, payload: str) -> None:
        authority_id = None
        with suppress(ValueError):
            authority_id = UUID(payload)
        self._forget(authority_id)
