"""Tells listeners of alarms, devices and certificates: read from PostgreSQL, since others than this cell note them.

Only while somebody listens, and as little to be relied on as all that is told live.
"""

import logging
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Protocol

from sqlalchemy import Engine, func, select

from nac.db import CellScope, session_scope
from nac.errors import AdmitError
from nac.events import alarms, certificates, endpoints
from nac.events.document import Event
from nac.events.texts import Tenant
from nac.ids import CellId
from nac.models import EventNote
from radius.agent.live import LiveFeed, Told

log = logging.getLogger(__name__)

LOOK_SECONDS = 1.0
# A note bears the time at which its transaction began: one that took longer than this is not told.
WINDOW = timedelta(seconds=10)
# Of one look, of all tenants.
MOST_NOTES = 1_000
# What a note takes, about.
_NOTE_BYTES = 1_000


class _Make(Protocol):
    def __call__(self, note: EventNote, *, tenant: Tenant) -> Event: ...


# Sessions begin and end by the thousand; listeners have each record of them.
_EVENTS: dict[str, _Make] = {
    "alarm": alarms.from_note,
    "endpoint": endpoints.from_note,
    "certificate": certificates.from_note,
}


class LiveNotes:
    def __init__(self, engine: Engine, cell_id: CellId, feed: LiveFeed) -> None:
        self._engine = engine
        self._cell_id = cell_id
        self._feed = feed
        # Tenants that were listened to at the last look, and the ids of the notes that it found.
        self._known: frozenset[str] = frozenset()
        self._seen: frozenset[int] = frozenset()
        self._in_trouble = False

    def run(self, stop: threading.Event) -> None:
        while not stop.wait(LOOK_SECONDS):
            try:
                self.look()
            except AdmitError as exc:
                if not self._in_trouble:
                    log.warning("listeners are told of no alarms, devices and certificates: %s", exc)
                self._in_trouble = True
            else:
                self._in_trouble = False

    def look(self) -> None:
        """Raises AdmitError where the database does not answer."""
        wanted = self._feed.wanted
        if not wanted:
            self._known, self._seen = frozenset(), frozenset()
            return
        newest = (
            select(EventNote)
            .where(
                EventNote.tenant_id.in_(sorted(wanted)),
                EventNote.kind != "session",
                EventNote.at > func.now() - WINDOW,
            )
            .order_by(EventNote.at.desc(), EventNote.id.desc())
            .limit(MOST_NOTES)
        )
        with session_scope(CellScope(self._cell_id), engine=self._engine) as session:
            notes = session.scalars(newest).all()[::-1]
        self._feed.offer(
            [
                Told(str(note.tenant_id), _NOTE_BYTES, _event_of(note))
                for note in notes
                # What was before somebody listened is not told.
                if note.id not in self._seen and str(note.tenant_id) in self._known
            ]
        )
        self._known, self._seen = wanted, frozenset(note.id for note in notes)


def _event_of(note: EventNote) -> Callable[[Tenant], Event]:
    make = _EVENTS[note.kind]
    return lambda tenant: make(note, tenant=tenant)
