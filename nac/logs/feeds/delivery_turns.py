"""Schedules feeds. Only one process per machine delivers feeds, and only one machine at a time delivers a feed.

PostgreSQL advisory locks enforce this. The locks end with the transaction of the delivery run, even if the process or
machine fails.

A mark describes a range of a tenant's new log rows (`batch_reader`). A note is the record of a change for which no log
table has a row.
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

from nac.kit.db import enter_tenant
from nac.kit.ids import TenantId
from nac.logs.feeds import progress

_log = logging.getLogger(__name__)

_POLL_SECONDS = 0.5
# Number of threads for database statements. Each needs a connection, besides the connection that holds the locks.
_THREADS = 3
# If a run of a feed takes longer than this, its receiver counts as slow. A run usually takes half of this time.
_SLOW_SECONDS = 10.0
# Maximum wait for running feeds when the time is over: the longest total timeout of a webhook plus overhead.
_GRACE_SECONDS = 25.0

_LOCK_MACHINE_SQL = text("SELECT pg_try_advisory_xact_lock(hashtext('feeds'), hashtext(:host))")
_LOCK_FEED_SQL = text("SELECT pg_try_advisory_xact_lock(hashtextextended('feed:' || :feed, 0))")
_DUE_SQL = text("SELECT id, tenant_id, failing FROM feeds_due()")
_RESTART_SQL = text("SELECT restart_restored_feeds()")
_ADVANCE_SQL = text("SELECT advance_idle_feeds()")
_FOLD_SQL = text("SELECT tenant_id, slug, folded FROM fold_feed_marks(:most)")
_PRUNE_SQL = text("SELECT tenant_id, slug, dropped FROM prune_feed_marks(make_interval(days => :days))")
_PRUNE_NOTES_SQL = text("SELECT prune_event_notes(make_interval(days => :days), :most)")
# Maximum number of notes that one call of `prune_marks` deletes. The worker calls it every ten minutes.
_NOTES_PER_PRUNE = 1_000_000
# Days until an undelivered event is dropped.
RETENTION_DAYS = 7
# Maximum number of waiting marks per feed. A busy tenant writes several marks per second.
_MAX_MARKS = 10_000
# Days until a note is deleted. Marks refer to notes, so notes must exist longer than marks.
NOTE_RETENTION_DAYS = RETENTION_DAYS + 1

# Pause after a feed has sent everything, so that its next connection carries several events.
_REST_SECONDS = 2.0

# Runs one feed, and returns whether the feed has more events to send.
DeliverFeed = Callable[[TenantId, UUID], Coroutine[Any, Any, bool]]


class DueFeed(NamedTuple):
    id: UUID
    tenant_id: TenantId
    failing: bool


def try_lock_machine(session: Session, host: str) -> bool:
    """Take the lock of the machine `host` until the transaction ends. Returns False if another process has the lock."""
    return bool(session.scalar(_LOCK_MACHINE_SQL, {"host": host}))


def restart_restored_feeds(session: Session) -> None:
    """Reset the positions of feeds after an administrator has restored the database from a dump."""
    for feed_id in session.scalars(_RESTART_SQL):
        _log.warning("feed %s belongs to a restored database: sending waiting and recent events again", feed_id)


def list_due(session: Session) -> list[DueFeed]:
    """List due feeds of all tenants, longest waiting first. Requires the database role admit_worker."""
    return [DueFeed(*row) for row in session.execute(_DUE_SQL)]


class ConcurrencyLimits(NamedTuple):
    """Maximum number of feeds that run concurrently."""

    all: int
    of_one_tenant: int

    def has_room(self, taken: Iterable[DueFeed], tenant_id: TenantId) -> bool:
        tenants = [each.tenant_id for each in taken]
        return len(tenants) < self.all and tenants.count(tenant_id) < self.of_one_tenant


# Failing and slow feeds have a separate limit, so that they do not block other feeds.
_LIMITS = ConcurrencyLimits(16, 4)
_FAILING_LIMITS = ConcurrencyLimits(8, 2)


async def deliver_due(session: Session, deliver: DeliverFeed, *, seconds: float) -> None:
    """Deliver due feeds, including feeds that become due meanwhile, until no feed is due.

    After `seconds`, starts no failing or slow feed. While a feed still runs after `seconds`, healthy feeds can start
    for up to _GRACE_SECONDS more. `session` has PlatformScope, and its transaction holds the locks of the feeds.
    """
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(_THREADS, "feeds"))
    await _DeliveryLoop(session, deliver).run(time.monotonic() + seconds)


class _DeliveryLoop:
    def __init__(self, session: Session, deliver: DeliverFeed) -> None:
        self._session = session
        self._deliver = deliver
        self._running: dict[asyncio.Task[bool], DueFeed] = {}
        # Feeds that were due at the last check, but did not start because of the limits.
        self._waiting: list[DueFeed] = []
        self._looks_at = 0.0
        # For each feed, the time.monotonic() at which its run started, and at which its pause ends.
        self._began: dict[UUID, float] = {}
        self._rests: dict[UUID, float] = {}
        self._slow: set[UUID] = set()

    async def run(self, deadline: float) -> None:
        while True:
            now = time.monotonic()
            if now < deadline or (self._running and now < deadline + _GRACE_SECONDS):
                await self._begin(also_failing=now < deadline)
            if not self._running:
                return
            ended, _ = await asyncio.wait(self._running, timeout=_POLL_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            for task in ended:
                self._end(task, self._running.pop(task))

    async def _begin(self, *, also_failing: bool) -> None:
        if not self._running or time.monotonic() >= self._looks_at:
            self._waiting = await asyncio.to_thread(list_due, self._session)
            self._looks_at = time.monotonic() + _POLL_SECONDS
        waiting, self._waiting = self._waiting, []
        for each in (each._replace(failing=each.failing or each.id in self._slow) for each in waiting):
            if self._is_busy(each) or (each.failing and not also_failing):
                continue
            if not self._has_place(each):
                self._waiting.append(each)
            elif await asyncio.to_thread(self._take, each):
                self._began[each.id] = time.monotonic()
                self._running[asyncio.create_task(self._deliver(each.tenant_id, each.id))] = each

    def _is_busy(self, feed: DueFeed) -> bool:
        runs = any(other.id == feed.id for other in self._running.values())
        return runs or self._rests.get(feed.id, 0) > time.monotonic()

    def _has_place(self, feed: DueFeed) -> bool:
        alike = (other for other in self._running.values() if other.failing == feed.failing)
        return (_FAILING_LIMITS if feed.failing else _LIMITS).has_room(alike, feed.tenant_id)

    def _take(self, feed: DueFeed) -> bool:
        """Take the feed's lock, unless another machine has the lock. The same session can take the lock repeatedly."""
        return bool(self._session.scalar(_LOCK_FEED_SQL, {"feed": str(feed.id)}))

    def _end(self, task: asyncio.Task[bool], feed: DueFeed) -> None:
        is_slow = time.monotonic() - self._began.pop(feed.id) > _SLOW_SECONDS
        (self._slow.add if is_slow else self._slow.discard)(feed.id)
        exc = task.exception()
        if exc is not None:
            _log.error("feed %s of tenant %s cannot be delivered", feed.id, feed.tenant_id, exc_info=exc)
        if exc is not None or not task.result():
            self._rests[feed.id] = time.monotonic() + _REST_SECONDS


def fold_marks(session: Session) -> None:
    """Combine the marks (ranges of events) of feeds that are far behind.

    Also advances the positions of feeds without events.

    Call this function in a separate transaction, because running feeds wait until the transaction ends.
    """
    # After a restore of the database, the old positions would hide waiting events.
    restart_restored_feeds(session)
    session.execute(_ADVANCE_SQL)
    for tenant_id, slug, folded in session.execute(_FOLD_SQL, {"most": _MAX_MARKS}):
        _log.warning("feed %s of tenant %s is far behind: %d marks are waiting", slug, tenant_id, folded)


def prune_marks(session: Session) -> None:
    """Delete delivered marks (ranges of events), old undelivered marks, and old notes.

    For each feed, records the number of deleted undelivered events in the audit log.
    """
    restart_restored_feeds(session)
    session.execute(_PRUNE_NOTES_SQL, {"days": NOTE_RETENTION_DAYS, "most": _NOTES_PER_PRUNE})
    for tenant_id, slug, dropped in session.execute(_PRUNE_SQL, {"days": RETENTION_DAYS}).all():
        enter_tenant(session, tenant_id)
        after = {"number": dropped, "because": f"Not delivered within {RETENTION_DAYS} days."}
        progress.report_event(session, tenant_id, slug, "give-up", after)
