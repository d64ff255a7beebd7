"""Which feeds are due, and who delivers them: one turn at a time on each machine, each feed by one of them alone.

The locks are those of the turn's transaction, which ends with it, and with the process or machine that dies.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.orm import Session

from nac.db import enter_tenant
from nac.feeds import progress
from nac.ids import TenantId

_log = logging.getLogger(__name__)

_LOOK_SECONDS = 0.5
# For the turn's own statements and those of the feeds, each with a connection besides that which holds the locks.
_THREADS = 3
# Twice what a feed is given at a stretch: it was its receiver that took the rest.
_SLOW_SECONDS = 10.0
# No feed is waited for longer when a turn ends: the longest timeout of a webhook, and what is before and after.
_LAST_SECONDS = 25.0

_TAKE_TURN = text("SELECT pg_try_advisory_xact_lock(hashtext('feeds'), hashtext(:host))")
_TAKE_FEED = text("SELECT pg_try_advisory_xact_lock(hashtextextended('feed:' || :feed, 0))")
_DUE = text("SELECT id, tenant_id, failing FROM feeds_due()")
_RESTART = text("SELECT restart_restored_feeds()")
_ADVANCE = text("SELECT advance_idle_feeds()")
_FOLD = text("SELECT tenant_id, slug, folded FROM fold_feed_marks(:most)")
_PRUNE = text("SELECT tenant_id, slug, dropped FROM prune_feed_marks(make_interval(days => :days))")
_PRUNE_NOTES = text("SELECT prune_event_notes(make_interval(days => :days), :most)")
# Every ten minutes, that is 1,600 a second.
_NOTES_AT_ONCE = 1_000_000
# How long a feed may be behind.
KEEP_DAYS = 7
# Marks that may wait for one feed; there are some each second where a tenant's devices come and go all the time.
_MARKS_MOST = 10_000
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


class Places(NamedTuple):
    """How many feeds are delivered at the same time."""

    all: int
    of_one_tenant: int

    def has_room(self, taken: Iterable[Due], tenant_id: TenantId) -> bool:
        tenants = [each.tenant_id for each in taken]
        return len(tenants) < self.all and tenants.count(tenant_id) < self.of_one_tenant


# Feeds that fail or are slow have places of their own: however many there are, they take none of the others'.
_PLACES = Places(16, 4)
_PLACES_OF_FAILING = Places(8, 2)


async def serve(session: Session, deliver: Deliver, *, seconds: float) -> None:
    """Deliver what is due, and what becomes due meanwhile, until nothing is.

    After `seconds` none is begun that fails or is slow, and the others only while one of before is still waited for.

    `session`, in PlatformScope, holds the locks.
    """
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(_THREADS, "feeds"))
    await _Serving(session, deliver).run(time.monotonic() + seconds)


class _Serving:
    def __init__(self, session: Session, deliver: Deliver) -> None:
        self._session = session
        self._deliver = deliver
        self._running: dict[asyncio.Task[bool], Due] = {}
        # Due when it was looked last, and without a place since then.
        self._waiting: list[Due] = []
        self._looks_at = 0.0
        # By time.monotonic(): since when they run, and until when they rest.
        self._began: dict[UUID, float] = {}
        self._rests: dict[UUID, float] = {}
        self._slow: set[UUID] = set()

    async def run(self, deadline: float) -> None:
        while True:
            now = time.monotonic()
            if now < deadline or (self._running and now < deadline + _LAST_SECONDS):
                await self._begin(also_failing=now < deadline)
            if not self._running:
                return
            ended, _ = await asyncio.wait(self._running, timeout=_LOOK_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            for task in ended:
                self._end(task, self._running.pop(task))

    async def _begin(self, *, also_failing: bool) -> None:
        if not self._running or time.monotonic() >= self._looks_at:
            self._waiting = await asyncio.to_thread(due, self._session)
            self._looks_at = time.monotonic() + _LOOK_SECONDS
        waiting, self._waiting = self._waiting, []
        for each in (each._replace(failing=each.failing or each.id in self._slow) for each in waiting):
            if self._is_busy(each) or (each.failing and not also_failing):
                continue
            if not self._has_place(each):
                self._waiting.append(each)
            elif await asyncio.to_thread(self._take, each):
                self._began[each.id] = time.monotonic()
                self._running[asyncio.create_task(self._deliver(each.tenant_id, each.id))] = each

    def _is_busy(self, feed: Due) -> bool:
        runs = any(other.id == feed.id for other in self._running.values())
        return runs or self._rests.get(feed.id, 0) > time.monotonic()

    def _has_place(self, feed: Due) -> bool:
        alike = (other for other in self._running.values() if other.failing == feed.failing)
        return (_PLACES_OF_FAILING if feed.failing else _PLACES).has_room(alike, feed.tenant_id)

    def _take(self, feed: Due) -> bool:
        """Again and again, where it is held already."""
        return bool(self._session.scalar(_TAKE_FEED, {"feed": str(feed.id)}))

    def _end(self, task: asyncio.Task[bool], feed: Due) -> None:
        is_slow = time.monotonic() - self._began.pop(feed.id) > _SLOW_SECONDS
        (self._slow.add if is_slow else self._slow.discard)(feed.id)
        exc = task.exception()
        if exc is not None:
            _log.error("feed %s of tenant %s cannot be delivered", feed.id, feed.tenant_id, exc_info=exc)
        if exc is not None or not task.result():
            self._rests[feed.id] = time.monotonic() + _REST_SECONDS


def fold(session: Session) -> None:
    """Bound what is kept for feeds that are far behind, and move on those for which nothing waits.

    Feeds wait for the transaction's end: it is for nothing else.
    """
    # Of a restored database positions say that nothing waits.
    restart_restored(session)
    session.execute(_ADVANCE)
    for tenant_id, slug, folded in session.execute(_FOLD, {"most": _MARKS_MOST}):
        _log.warning("feed %s of tenant %s is far behind: %d marks tell what waits for it", slug, tenant_id, folded)


def prune(session: Session) -> None:
    """Forget what all feeds have delivered, and what is too old; what was not delivered of that is counted and told."""
    restart_restored(session)
    session.execute(_PRUNE_NOTES, {"days": NOTES_DAYS, "most": _NOTES_AT_ONCE})
    for tenant_id, slug, dropped in session.execute(_PRUNE, {"days": KEEP_DAYS}).all():
        enter_tenant(session, tenant_id)
        after = {"number": dropped, "because": f"They were not delivered within {KEEP_DAYS} days."}
        progress.tell(session, tenant_id, slug, "give-up", after)
