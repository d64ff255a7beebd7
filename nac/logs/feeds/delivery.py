"""One run of a feed: sends batches of events until no event is left or the time is over.

No transaction is open during a send. The feed stores its position after the send. So after a crash, a batch may be
sent again, but is never lost. Database calls run in threads, so that they do not block other feeds.

If a receiver always rejects one event, the feed isolates this event. After SEARCH_AFTER_ATTEMPTS rejected attempts in a
row, the feed halves a batch until the receiver rejects a single event. The feed skips the rejected event only if the
receiver accepts other events. If the receiver rejects everything, the feed skips nothing.

If a batch times out, a batch of the same size would time out again. So the next attempt has half as many events, and
the feed stores this limit in `Feed.at_once`. The limit grows again with each accepted batch.
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

from nac.kit.advice import Advice, NextStep
from nac.kit.clock import utc_now
from nac.kit.db import TenantScope, session_scope
from nac.kit.errors import Unavailable
from nac.kit.ids import TenantId
from nac.kit.outbound.reach import OutboundReach
from nac.kit.secrets import Sealer, SecretsError
from nac.logs.events.document import Event
from nac.logs.events.event_values import EventTenant
from nac.logs.feeds import batch_reader, progress
from nac.logs.feeds.batch_reader import FeedBatch, FeedPosition
from nac.logs.feeds.event_sources import EVENT_SOURCES
from nac.logs.feeds.progress import DeliveryStep, FeedSender, SendFailed
from nac.logs.feeds.settings import AnyFeedSettings, SyslogSettings, open_settings, parse_settings, seal_context
from nac.logs.feeds.syslog_sender import SyslogSender
from nac.logs.feeds.webhook_sender import WebhookSender
from nac.models import Feed
from nac.models import Tenant as TenantRow

_log = logging.getLogger(__name__)
SEARCH_AFTER_ATTEMPTS = 8
# After this number of rejected single events in a row, the receiver is assumed to reject everything.
_MAX_REFUSED = 100
_INTERNAL_ERROR = "Internal error of Admit. See the worker's log."
_NETWORKS_REMEDY = Advice(
    "The address is outside of the feed's networks. Change the networks.", NextStep("updateFeed", {"networks": ""})
)


@dataclass(frozen=True, slots=True)
class DeliveryContext:
    """Resources that all feeds share."""

    reach: OutboundReach
    # Loads the master key when a feed needs its secret for the first time.
    sealer: Callable[[], Sealer]
    engine: Engine | None = None
    clock: Callable[[], datetime] = utc_now


async def deliver_feed(tenant_id: TenantId, feed_id: UUID, ways: DeliveryContext, *, seconds: float) -> bool:
    """Run one feed until no event is left or its time is over. Returns whether the feed still has events to send.

    Requires the database role admit_worker. The caller holds the feed's lock.
    """
    if (found := await asyncio.to_thread(_load_active_feed, tenant_id, feed_id, ways)) is None:
        return False
    feed, tenant = found
    try:
        return await _run_turn(feed, tenant, ways, seconds)
    except SendFailed as exc:
        failure = exc
    except Unavailable:
        raise
    except Exception:  # house-rule: an error of one feed must not stop the others
        _log.exception("feed %s of tenant %s cannot be delivered", feed.slug, tenant_id)
        failure = SendFailed(_INTERNAL_ERROR)
    await asyncio.to_thread(_store_failure, feed, failure, ways)
    return False


def _load_active_feed(tenant_id: TenantId, feed_id: UUID, ways: DeliveryContext) -> tuple[Feed, EventTenant] | None:
    with session_scope(TenantScope(tenant_id), engine=ways.engine) as session:
        feed = session.get(Feed, feed_id)
        if feed is None or feed.status != "active":
            return None
        return feed, EventTenant(str(tenant_id), session.get_one(TenantRow, tenant_id).slug)


def _store_failure(feed: Feed, failure: SendFailed, ways: DeliveryContext) -> None:
    with session_scope(TenantScope(feed.tenant_id), engine=ways.engine) as session:
        progress.store_failure(session, feed, failure, now=ways.clock())


async def _run_turn(feed: Feed, tenant: EventTenant, ways: DeliveryContext, seconds: float) -> bool:
    sender = _build_sender(feed, ways)
    try:
        return await _DeliveryTurn(feed, tenant, sender, ways).run(seconds)
    finally:
        await sender.drop()


def _build_sender(feed: Feed, ways: DeliveryContext) -> FeedSender:
    try:
        return build_sender(feed, reach=ways.reach, sealer=ways.sealer(), now=ways.clock())
    except SecretsError as exc:
        raise SendFailed(f"The secret cannot be decrypted: {exc}") from exc


class _BatchFate(Enum):
    """Result of sending a batch."""

    TAKEN = auto()
    # The feed delivered nothing, and will try again with fewer events.
    FEWER = auto()
    # The receiver rejected a batch of a single event.
    REFUSED = auto()
    NOTHING_WANTED = auto()


class _DeliveryTurn:
    def __init__(self, feed: Feed, tenant: EventTenant, sender: FeedSender, ways: DeliveryContext) -> None:
        self._feed = feed
        self._tenant = tenant
        self._sender = sender
        self._ways = ways
        self._outcomes = parse_settings(feed.kind, feed.settings).outcomes
        # Maximum events per batch. The feed reduces this number if the receiver reports that a batch is too large.
        self._fitting = sender.most_events
        self._most = self._usual
        self._searches = feed.attempts >= SEARCH_AFTER_ATTEMPTS
        self._has_taken = False
        # True if the last batch was cut because its events were unusually long. The next batch may be larger again.
        self._is_cut = False
        self._last_refusal: SendFailed | None = None
        self._goes_on = True

    @property
    def _usual(self) -> int:
        return min(self._fitting, self._feed.at_once or self._fitting)

    async def run(self, seconds: float) -> bool:
        """Send batches until no event is left or the time is over.

        Returns True if events may be left because the time is over. Raises SendFailed.
        """
        deadline = time.monotonic() + seconds
        position = FeedPosition.of(self._feed)
        # Progress that is not stored yet, because it is uncertain whether the receiver has the sent events.
        held: DeliveryStep | None = None
        is_last = False
        while self._goes_on and time.monotonic() < deadline:
            batch, events, lost = await asyncio.to_thread(self._read, position)
            if is_last := batch.last:
                break
            fate = await self._send(events)
            if fate is _BatchFate.FEWER:
                continue
            position = batch.position
            if fate is _BatchFate.REFUSED:
                step = DeliveryStep(position, lost=batch.gone + lost, refused=(events[0].event.id,))
            else:
                step = DeliveryStep(position, len(events), batch.gone + lost)
            if fate is _BatchFate.TAKEN and held is not None and not self._sender.is_confirmed:
                await self._store(held)
                held = None
            held = held.then(step) if held else step
            if len(held.refused) > _MAX_REFUSED:
                break
            if self._sender.is_confirmed and (fate is _BatchFate.TAKEN or not held.refused):
                await self._store(held)
                held = None
        await self._sender.close()
        if held is not None:
            self._require_proof(held)
            await self._store(held)
        return self._goes_on and not is_last

    def _require_proof(self, held: DeliveryStep) -> None:
        """Raise the last rejection if the receiver may reject every event.

        Admit assumes this if several events in `held` were rejected, or one was rejected and none accepted in this run.
        """
        if held.refused and self._last_refusal and (len(held.refused) > 1 or not self._has_taken):
            raise self._last_refusal

    async def _send(self, events: Sequence[Event]) -> _BatchFate:
        if not events:
            return _BatchFate.NOTHING_WANTED
        fitting = self._sender.fitting(events)
        if fitting < len(events):
            self._most, self._is_cut = fitting, True
            return _BatchFate.FEWER
        try:
            await self._sender.send(events)
        except SendFailed as exc:
            failure = exc
        except Exception:  # house-rule: a faulty event is isolated like a rejected one
            _log.exception("feed %s of tenant %s: a batch cannot be sent", self._feed.slug, self._tenant.id)
            failure = SendFailed(_INTERNAL_ERROR, is_refused=True)
        else:
            self._has_taken = True
            is_paced = self._quicken()
            if is_paced or self._is_cut or self._last_refusal is not None:
                self._most, self._is_cut = self._usual, False
            return _BatchFate.TAKEN
        is_searched = self._searches and failure.is_refused
        if len(events) > 1 and (failure.is_too_much or is_searched):
            self._most = len(events) // 2
            if failure.is_too_much:
                self._fitting = self._most
            return _BatchFate.FEWER
        if not is_searched:
            if failure.is_slow:
                self._feed.at_once = max(1, len(events) // 2)
            raise failure
        self._last_refusal = failure
        return _BatchFate.REFUSED

    def _quicken(self) -> bool:
        """Increase the limit `Feed.at_once` by an eighth. Returns False if the feed has no such limit."""
        at_once = self._feed.at_once
        if at_once is None:
            return False
        more = at_once + at_once // 8 + 1
        self._feed.at_once = more if more < self._sender.most_events else None
        return True

    def _read(self, position: FeedPosition) -> tuple[FeedBatch, list[Event], int]:
        with self._session() as session:
            batch = batch_reader.read_batch(session, self._feed, position, most=self._most)
            made = [self._event(*row) for row in batch.rows]
        events = [event for event in made if event is not None]
        kept = [event for event in events if not self._outcomes or event.event.outcome in self._outcomes]
        return batch, kept, len(made) - len(events)

    def _event(self, source: str, row: object) -> Event | None:
        try:
            return EVENT_SOURCES[source].event(row, self._tenant)
        except Exception:  # house-rule: one faulty row must not block the others
            _log.exception("feed %s of tenant %s: a row of %s makes no event", self._feed.slug, self._tenant.id, source)
            return None

    async def _store(self, step: DeliveryStep) -> None:
        self._goes_on = await asyncio.to_thread(self._stored, step)

    def _stored(self, step: DeliveryStep) -> bool:
        with self._session() as session:
            return progress.store_delivery(
                session, self._feed, step, refusal=self._last_refusal, now=self._ways.clock()
            )

    def _session(self) -> AbstractContextManager[Session]:
        return session_scope(TenantScope(self._feed.tenant_id), engine=self._ways.engine)


def build_sender(feed: Feed, *, reach: OutboundReach, sealer: Sealer, now: datetime) -> FeedSender:
    """Create the feed's sender. Requires a running event loop, which then owns the sender's connections."""
    settings = open_settings(feed, sealer)
    within = build_reach(settings, reach=reach, tenant_id=feed.tenant_id)
    secrets = [
        sealer.open(sealed, seal_context(feed.tenant_id, feed.id)).decode() for sealed in _valid_secrets(feed, now)
    ]
    if isinstance(settings, SyslogSettings):
        return SyslogSender(settings, reach=within, client_key="".join(secrets))
    return WebhookSender(settings, reach=within, feed=str(feed.id), secrets=secrets)


def build_reach(settings: AnyFeedSettings, *, reach: OutboundReach, tenant_id: UUID) -> OutboundReach:
    """Return the addresses that the feed may connect to. The networks in `settings` must be valid."""
    return reach.within(settings.networks, remedy=_NETWORKS_REMEDY, owner=str(tenant_id))


def _valid_secrets(feed: Feed, now: datetime) -> list[bytes]:
    """Return the valid sealed secrets, the current secret first."""
    is_former_valid = feed.former_secret_until is not None and feed.former_secret_until > now
    return [sealed for sealed in (feed.secret_sealed, is_former_valid and feed.former_secret_sealed) if sealed]
