"""Sends live events about alarms, devices and certificates.

Reads alarms, devices and certificates from PostgreSQL, because other processes write them, too. Runs only while clients
watch. Some of these events may be left out, as with all live events.
"""

import logging
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from typing import Protocol

from sqlalchemy import ARRAY, UUID, Engine, Subquery, bindparam, func, select, true
from sqlalchemy.orm import Session, aliased

from nac.kit.db import CellScope, session_scope
from nac.kit.errors import AdmitError
from nac.kit.ids import CellId
from nac.logs.events import alarms, certificates, endpoints
from nac.logs.events.document import Event
from nac.logs.events.event_values import EventTenant
from nac.models import EventNote
from radius.agent.shipping.live_feed import LiveFeed, LiveItem

log = logging.getLogger(__name__)

POLL_SECONDS = 1.0
# Maximum age of notes that the agent reads. A note has the start time of its transaction, so the agent misses notes of
# longer transactions.
WINDOW = timedelta(minutes=1)
# Limit of notes in one poll, shared by the tenants.
MAX_NOTES = 1_000
# Limit of notes of one tenant within WINDOW, to count the notes that are left out.
MAX_KNOWN_NOTES = 10_000
# Estimated bytes of a note.
_NOTE_BYTES = 1_000


class _NoteEventFactory(Protocol):
    def __call__(self, note: EventNote, *, tenant: EventTenant) -> Event: ...


# Kinds of notes to send. Notes about sessions are left out: there are thousands, and watchers get the accounting
# records.
_EVENT_FACTORIES: dict[str, _NoteEventFactory] = {
    "alarm": alarms.from_note,
    "endpoint": endpoints.from_note,
    "certificate": certificates.from_note,
}


class LiveNotes:
    def __init__(self, engine: Engine, cell_id: CellId, feed: LiveFeed) -> None:
        self._engine = engine
        self._cell_id = cell_id
        self._feed = feed
        # Tenants that were watched at the last poll, and ids of the notes that this poll read.
        self._known: frozenset[str] = frozenset()
        self._seen: frozenset[int] = frozenset()
        self._in_trouble = False

    def run(self, stop: threading.Event) -> None:
        while not stop.wait(POLL_SECONDS):
            try:
                self.look()
            except AdmitError as exc:
                if not self._in_trouble:
                    log.warning("no live events about alarms, devices and certificates: %s", exc)
                self._in_trouble = True
            else:
                self._in_trouble = False

    def look(self) -> None:
        watched = self._feed.wanted
        if not watched:
            self._known, self._seen = frozenset(), frozenset()
            return
        with session_scope(CellScope(self._cell_id), engine=self._engine) as session:
            note = aliased(EventNote, _newest_notes(watched, MAX_KNOWN_NOTES))
            rows = session.execute(select(note.id, note.tenant_id)).all()
            # Skip notes from before the tenant was watched.
            fresh = {id_: str(of) for id_, of in rows if id_ not in self._seen and str(of) in self._known}
            items = _read_items(session, fresh) if fresh else []
        self._feed.offer(items, Counter(fresh.values()))
        self._known, self._seen = watched, frozenset(id_ for id_, _ in rows)


def _newest_notes(tenants: Iterable[str], most: int) -> Subquery:
    """Query for the newest event notes (rows about changes) of each tenant."""
    ids = bindparam(None, sorted(tenants), type_=ARRAY(UUID(as_uuid=False)))
    tenant = func.unnest(ids).table_valued("id", name="tenant").render_derived()
    newest = select(EventNote).where(
        EventNote.tenant_id == tenant.c.id, EventNote.kind != "session", EventNote.at > func.now() - WINDOW
    )
    of_one = newest.order_by(EventNote.at.desc(), EventNote.id.desc()).limit(most).lateral()
    return select(of_one).select_from(tenant).join(of_one, true()).subquery()


def _read_items(session: Session, fresh: Mapping[int, str]) -> list[LiveItem]:
    """Read the newest event notes, in the order in which the notes were written.

    `fresh` contains the tenant of each note to send, by id of the note.
    """
    tenants = set(fresh.values())
    note = aliased(EventNote, _newest_notes(tenants, max(1, MAX_NOTES // len(tenants))))
    notes = session.scalars(select(note).order_by(note.at, note.id))
    return [LiveItem(fresh[each.id], _NOTE_BYTES, _note_event(each)) for each in notes if each.id in fresh]


def _note_event(note: EventNote) -> Callable[[EventTenant], Event]:
    make = _EVENT_FACTORIES[note.kind]
    return lambda tenant: make(note, tenant=tenant)
