"""Which feeds are due, and who delivers them: one turn at a time on each machine, each feed by one of them alone.

The locks are those of the turn's transaction, which ends with it, and with the process or machine that dies.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine
from typing import Any, NamedTuple
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.orm import Session

from nac.ids import TenantId

_log = logging.getLogger(__name__)
# Feeds that fail have places of their own: however many there are, they take none of the others'.
_PLACES = 16
_PLACES_OF_FAILING = 8
_LOOK_SECONDS = 0.5

_TAKE_TURN = text("SELECT pg_try_advisory_xact_lock(hashtext('feeds'), hashtext(:host))")
_TAKE_FEED = text("SELECT pg_try_advisory_xact_lock(hashtextextended('feed:' || :feed, 0))")
_DUE = text("SELECT id, tenant_id, failing FROM feeds_due()")
_RESTART = text("SELECT restart_restored_feeds()")
_PRUNE = text("SELECT tenant_id, slug, dropped FROM prune_feed_marks(make_interval(days => :days))")
_PRUNE_NOTES = text("SELECT prune_event_notes(make_interval(days => :days), :most)")
# Every ten minutes, that is 1,600 a second.
_NOTES_AT_ONCE = 1_000_000
# How long a feed may be behind.
KEEP_DAYS = 7
# Later than marks, which name notes.
NOTES_DAYS = KEEP_DAYS + 1

# Before a feed that has sent all there was is looked at again: connections are not made for every event.
_REST_SECONDS = 2.0

# Whether there is more to send at once.
Deliver = Callable[[TenantId, UUID], Coroutine[Any, Any, bool]]


class Due(NamedTuple):
    id: UUID
    tenant_id: TenantId
    failing: bool


def take_turn(session: Session, host: str) -> bool:
    """Whether nobody else on this machine delivers feeds; nobody does until the transaction ends."""
    return bool(session.scalar(_TAKE_TURN, {"host": host}))


def restart_restored(session: Session) -> None:
    """Whatever was read of a database before it was restored from a dump is read again."""
    for feed_id in session.scalars(_RESTART):
        _log.warning("feed %s is of a database that was restored: what waited and what was sent last is sent", feed_id)


def due(session: Session) -> list[Due]:
    """Of all tenants, the one first whose last turn is longest ago. As admit_worker."""
    return [Due(*row) for row in session.execute(_DUE)]


async def serve(session: Session, deliver: Deliver, *, seconds: float) -> None:
    """Deliver what is due, and what becomes due meanwhile, until nothing is; after `seconds` nothing is begun any more.

    `session`, in PlatformScope, holds the locks.
    """
    await _Serving(session, deliver).run(time.monotonic() + seconds)


class _Serving:
    def __init__(self, session: Session, deliver: Deliver) -> None:
        self._session = session
        self._deliver = deliver
        self._running: dict[asyncio.Task[bool], Due] = {}
        # Until when, by time.monotonic().
        self._rests: dict[UUID, float] = {}

    async def run(self, deadline: float) -> None:
        while True:
            if time.monotonic() < deadline:
                self._begin()
            if not self._running:
                return
            ended, _ = await asyncio.wait(self._running, timeout=_LOOK_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            for task in ended:
                self._end(task, self._running.pop(task))

    def _begin(self) -> None:
        busy = {each.id for each in self._running.values()}
        for each in due(self._session):
            taken = sum(other.failing == each.failing for other in self._running.values())
            has_place = taken < (_PLACES_OF_FAILING if each.failing else _PLACES)
            rests = self._rests.get(each.id, 0) > time.monotonic()
            if each.id not in busy and has_place and not rests and self._take(each):
                self._running[asyncio.create_task(self._deliver(each.tenant_id, each.id))] = each

    def _take(self, feed: Due) -> bool:
        """Again and again, where it is held already."""
        return bool(self._session.scalar(_TAKE_FEED, {"feed": str(feed.id)}))

    def _end(self, task: asyncio.Task[bool], feed: Due) -> None:
        exc = task.exception()
        if exc is not None:
            _log.error("feed %s of tenant %s cannot be delivered", feed.id, feed.tenant_id, exc_info=exc)
        if exc is not None or not task.result():
            self._rests[feed.id] = time.monotonic() + _REST_SECONDS


def prune(session: Session) -> None:
    """Forget what all feeds have delivered, and what is too old; what was not delivered of that is counted and told."""
    restart_restored(session)
    session.execute(_PRUNE_NOTES, {"days": NOTES_DAYS, "most": _NOTES_AT_ONCE})
    for tenant_id, slug, dropped in session.execute(_PRUNE, {"days": KEEP_DAYS}):
        _log.warning(
            "feed %s of tenant %s: %d events were not delivered within %d days and are given up",
            *(slug, tenant_id, dropped, KEEP_DAYS),
        )
