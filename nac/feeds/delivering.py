"""One feed's turn: batches, until nothing is left or its time is over.

No transaction is open while something is sent. What was sent is stored afterwards, so that a death between the two
sends it again; it is never stored before.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
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
from nac.outbound.reach import Reach
from nac.secrets import Sealer, SecretsError

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Ways:
    """What every feed is delivered with."""

    reach: Reach
    # Opened when the first secret is needed.
    sealer: Callable[[], Sealer]
    engine: Engine | None = None
    clock: Callable[[], datetime] = utc_now


async def deliver(tenant_id: TenantId, feed_id: UUID, ways: Ways, *, seconds: float) -> bool:
    """Whether there is more to send at once. As admit_worker; the caller sees to it that nobody else delivers it."""
    with session_scope(TenantScope(tenant_id), engine=ways.engine) as session:
        feed = session.get(Feed, feed_id)
        if feed is None or feed.status != "active":
            return False
        tenant = Tenant(str(tenant_id), session.get_one(TenantRow, tenant_id).slug)
    try:
        return await _run(feed, tenant, ways, seconds)
    except SendFailed as exc:
        failure = exc
    except Unavailable:
        raise
    except Exception:  # house-rule: what goes wrong with one feed is shown as its failure, and tried again later
        _log.exception("feed %s of tenant %s cannot be delivered", feed.slug, tenant_id)
        failure = SendFailed("It cannot be delivered because of an error of Admit's; the worker's log has it.")
    with session_scope(TenantScope(tenant_id), engine=ways.engine) as session:
        progress.store_failed(session, feed, failure, now=ways.clock())
    return False


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


class _Turn:
    def __init__(self, feed: Feed, tenant: Tenant, sender: Sender, ways: Ways) -> None:
        self._feed = feed
        self._tenant = tenant
        self._sender = sender
        self._ways = ways
        self._outcomes = stored(feed.kind, feed.settings).outcomes
        # Events of a batch; fewer from when the receiver could not take as many.
        self._most = sender.most_events
        self._goes_on = True

    async def run(self, seconds: float) -> bool:
        """Whether time was over before the end was reached. Raises SendFailed."""
        deadline = time.monotonic() + seconds
        position = Position.of(self._feed)
        # Sent, and waiting to be confirmed by what comes after it.
        held: Step | None = None
        is_last = False
        while self._goes_on and time.monotonic() < deadline:
            batch, events, lost = self._read(position)
            if is_last := batch.last:
                break
            if events and not await self._sent(events):
                continue
            position = batch.position
            step = Step(position, len(events), batch.gone + lost)
            if events and held is not None:
                self._store(held)
                held = None
            held = held.then(step) if held else step
            if self._sender.is_confirmed:
                self._store(held)
                held = None
            # Others have their turn even where nothing was waited for.
            await asyncio.sleep(0)
        await self._sender.close()
        if held is not None:
            self._store(held)
        return self._goes_on and not is_last

    async def _sent(self, events: Sequence[Event]) -> bool:
        """False where half as many are to be tried."""
        try:
            await self._sender.send(events)
        except SendFailed as failure:
            if not failure.is_too_much or len(events) == 1:
                raise
            self._most = len(events) // 2
            return False
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

    def _store(self, step: Step) -> None:
        with self._session() as session:
            self._goes_on = progress.store_delivered(session, self._feed, step, now=self._ways.clock())

    def _session(self) -> AbstractContextManager[Session]:
        return session_scope(TenantScope(self._feed.tenant_id), engine=self._ways.engine)
