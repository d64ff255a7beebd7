"""One feed's turn: batches, until nothing is left or its time is over.

No transaction is open while something is sent. What was sent is stored afterwards, so that a death between the two
sends it again; it is never stored before. PostgreSQL is asked in threads: whoever waits for a receiver waits for no
other feed's statement.

An event that a receiver never takes stops its feed for good unless it is found and given up. After SEARCH_AFTER
attempts in a row that were refused a batch is halved until one event is refused alone; it counts as lost once the
receiver has taken others around it. A receiver that refuses everything has taken none, and nothing is given up.

One that takes too long for a batch would take too long for it again, and have some of it each time. The next attempt
has half as many (`Feed.at_once`), and from what it takes in time they become more again.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from enum import Enum, auto
from uuid import UUID

from sqlalchemy import Engine
from sqlalchemy.orm import Session

from nac.clock import utc_now
from nac.db import TenantScope, session_scope
from nac.errors import Unavailable
from nac.events.document import Event
from nac.events.texts import Tenant
from nac.feeds import progress, reading
from nac.feeds.progress import Step
from nac.feeds.reading import Batch, Position
from nac.feeds.senders import make_sender
from nac.feeds.sending import Sender, SendFailed
from nac.feeds.settings import stored
from nac.feeds.sources import SOURCES
from nac.ids import TenantId
from nac.models import Feed
from nac.models import Tenant as TenantRow
from nac.outbound.reach import OutboundReach
from nac.secrets import Sealer, SecretsError

_log = logging.getLogger(__name__)
SEARCH_AFTER = 8
# Refused one by one, in a row; of so many the receiver wants none rather than each.
_REFUSED_MOST = 100
_OUR_ERROR = "It cannot be delivered because of an error of Admit's; the worker's log has it."


@dataclass(frozen=True, slots=True)
class Ways:
    """What every feed is delivered with."""

    reach: OutboundReach
    # Opened when the first secret is needed.
    sealer: Callable[[], Sealer]
    engine: Engine | None = None
    clock: Callable[[], datetime] = utc_now


async def deliver(tenant_id: TenantId, feed_id: UUID, ways: Ways, *, seconds: float) -> bool:
    """Whether there is more to send at once. As admit_worker; the caller sees to it that nobody else delivers it."""
    if (found := await asyncio.to_thread(_active, tenant_id, feed_id, ways)) is None:
        return False
    feed, tenant = found
    try:
        return await _run(feed, tenant, ways, seconds)
    except SendFailed as exc:
        failure = exc
    except Unavailable:
        raise
    except Exception:  # house-rule: what goes wrong with one feed is shown as its failure, and tried again later
        _log.exception("feed %s of tenant %s cannot be delivered", feed.slug, tenant_id)
        failure = SendFailed(_OUR_ERROR)
    await asyncio.to_thread(_store_failed, feed, failure, ways)
    return False


def _active(tenant_id: TenantId, feed_id: UUID, ways: Ways) -> tuple[Feed, Tenant] | None:
    with session_scope(TenantScope(tenant_id), engine=ways.engine) as session:
        feed = session.get(Feed, feed_id)
        if feed is None or feed.status != "active":
            return None
        return feed, Tenant(str(tenant_id), session.get_one(TenantRow, tenant_id).slug)


def _store_failed(feed: Feed, failure: SendFailed, ways: Ways) -> None:
    with session_scope(TenantScope(feed.tenant_id), engine=ways.engine) as session:
        progress.store_failed(session, feed, failure, now=ways.clock())


async def _run(feed: Feed, tenant: Tenant, ways: Ways, seconds: float) -> bool:
    sender = _sender(feed, ways)
    try:
        return await _Turn(feed, tenant, sender, ways).run(seconds)
    finally:
        await sender.drop()


def _sender(feed: Feed, ways: Ways) -> Sender:
    try:
        return make_sender(feed, reach=ways.reach, sealer=ways.sealer(), now=ways.clock())
    except SecretsError as exc:
        raise SendFailed(f"Its secret cannot be opened: {exc}") from exc


class _Fate(Enum):
    """Of a batch."""

    TAKEN = auto()
    # Half as many are to be tried.
    FEWER = auto()
    # One event, which stands in the way of what follows.
    REFUSED = auto()
    NOTHING_WANTED = auto()


class _Turn:
    def __init__(self, feed: Feed, tenant: Tenant, sender: Sender, ways: Ways) -> None:
        self._feed = feed
        self._tenant = tenant
        self._sender = sender
        self._ways = ways
        self._outcomes = stored(feed.kind, feed.settings).outcomes
        # Events of a batch; fewer from when the receiver could not take as many.
        self._fitting = sender.most_events
        self._most = self._usual
        self._searches = feed.attempts >= SEARCH_AFTER
        self._has_taken = False
        # These events were longer than others: the next batch may have more of them again.
        self._is_cut = False
        self._last_refusal: SendFailed | None = None
        self._goes_on = True

    @property
    def _usual(self) -> int:
        return min(self._fitting, self._feed.at_once or self._fitting)

    async def run(self, seconds: float) -> bool:
        """Whether time was over before the end was reached. Raises SendFailed."""
        deadline = time.monotonic() + seconds
        position = Position.of(self._feed)
        # Sent, and waiting to be confirmed by what comes after it.
        held: Step | None = None
        is_last = False
        while self._goes_on and time.monotonic() < deadline:
            batch, events, lost = await asyncio.to_thread(self._read, position)
            if is_last := batch.last:
                break
            fate = await self._send(events)
            if fate is _Fate.FEWER:
                continue
            position = batch.position
            if fate is _Fate.REFUSED:
                step = Step(position, lost=batch.gone + lost, refused=(events[0].event.id,))
            else:
                step = Step(position, len(events), batch.gone + lost)
            if fate is _Fate.TAKEN and held is not None and not self._sender.is_confirmed:
                await self._store(held)
                held = None
            held = held.then(step) if held else step
            if len(held.refused) > _REFUSED_MOST:
                break
            if self._sender.is_confirmed and (fate is _Fate.TAKEN or not held.refused):
                await self._store(held)
                held = None
        await self._sender.close()
        if held is not None:
            self._require_proof(held)
            await self._store(held)
        return self._goes_on and not is_last

    def _require_proof(self, held: Step) -> None:
        """Nothing was taken behind what was refused: that of a single event says enough if others were, before."""
        if held.refused and self._last_refusal and (len(held.refused) > 1 or not self._has_taken):
            raise self._last_refusal

    async def _send(self, events: Sequence[Event]) -> _Fate:
        if not events:
            return _Fate.NOTHING_WANTED
        fitting = self._sender.fitting(events)
        if fitting < len(events):
            self._most, self._is_cut = fitting, True
            return _Fate.FEWER
        try:
            await self._sender.send(events)
        except SendFailed as exc:
            failure = exc
        except Exception:  # house-rule: what is wrong with one event is found, as where a receiver refuses it
            _log.exception("feed %s of tenant %s: a batch cannot be sent", self._feed.slug, self._tenant.id)
            failure = SendFailed(_OUR_ERROR, is_refused=True)
        else:
            self._has_taken = True
            is_paced = self._quicken()
            if is_paced or self._is_cut or self._last_refusal is not None:
                self._most, self._is_cut = self._usual, False
            return _Fate.TAKEN
        is_searched = self._searches and failure.is_refused
        if len(events) > 1 and (failure.is_too_much or is_searched):
            self._most = len(events) // 2
            if failure.is_too_much:
                self._fitting = self._most
            return _Fate.FEWER
        if not is_searched:
            if failure.is_slow:
                self._feed.at_once = max(1, len(events) // 2)
            raise failure
        self._last_refusal = failure
        return _Fate.REFUSED

    def _quicken(self) -> bool:
        """Whether there is a bound, which is moved up by an eighth."""
        at_once = self._feed.at_once
        if at_once is None:
            return False
        more = at_once + at_once // 8 + 1
        self._feed.at_once = more if more < self._sender.most_events else None
        return True

    def _read(self, position: Position) -> tuple[Batch, list[Event], int]:
        with self._session() as session:
            batch = reading.read(session, self._feed, position, most=self._most)
            made = [self._event(*row) for row in batch.rows]
        events = [event for event in made if event is not None]
        wanted = [event for event in events if not self._outcomes or event.event.outcome in self._outcomes]
        return batch, wanted, len(made) - len(events)

    def _event(self, source: str, row: object) -> Event | None:
        try:
            return SOURCES[source].event(row, self._tenant)
        except Exception:  # house-rule: whatever is wrong with one row, the others are sent
            _log.exception("feed %s of tenant %s: a row of %s makes no event", self._feed.slug, self._tenant.id, source)
            return None

    async def _store(self, step: Step) -> None:
        self._goes_on = await asyncio.to_thread(self._stored, step)

    def _stored(self, step: Step) -> bool:
        with self._session() as session:
            return progress.store_delivered(
                session, self._feed, step, refusal=self._last_refusal, now=self._ways.clock()
            )

    def _session(self) -> AbstractContextManager[Session]:
        return session_scope(TenantScope(self._feed.tenant_id), engine=self._ways.engine)
