"""Sends shipped records as live events over Redis while clients watch.

The clients read the events through nac.logs.events.live_stream.

Shippers pass records to this module after the commit, and continue without waiting. A separate thread creates and sends
the events. If the queue between the shipper and this thread is full, the tenant with the most data loses its oldest
events. If Redis hangs, fails or loses data, Admit leaves events out and counts the missing events. Clients detect gaps
by the numbers in the entries.
"""

import logging
import os
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby
from typing import Generic, NamedTuple, TypeVar

import psycopg
import redis

from nac.logs.events import coa
from nac.logs.events.document import Event, to_json
from nac.logs.events.event_values import EventTenant
from nac.logs.events.live_stream import (
    MAX_ENTRIES,
    MAX_ENTRY_BYTES,
    MAX_ENTRY_EVENTS,
    RETENTION_SECONDS,
    StreamFields,
    build_entry,
    connect_redis,
    events_key,
    interest_key,
)
from nac.models import CoaRequest

T = TypeVar("T")


class FairQueue(Generic[T]):
    def __init__(self, *, most: int, most_bytes: int) -> None:
        self._most = most
        self._most_bytes = most_bytes
        # Items by tenant, as (bytes, item), oldest first. Tenants without items have no entry.
        self._waiting: dict[str, deque[tuple[int, T]]] = {}
        self._bytes: Counter[str] = Counter()
        self._length = 0
        self.size = 0

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[T]:
        """Iterate over the items by tenant, oldest first."""
        return (item for queue in self._waiting.values() for _, item in queue)

    def put(self, tenant_id: str, size: int, item: T) -> int:
        """Add an item of `size` bytes. Returns the number of dropped items.

        The dropped items are the oldest items of the tenant with the most data.
        """
        self._waiting.setdefault(tenant_id, deque()).append((size, item))
        self._bytes[tenant_id] += size
        self._length += 1
        self.size += size
        before = self._length
        while self._length > self._most:
            self._pop(max(self._waiting, key=self._length_of))
        while self.size > self._most_bytes:
            self._pop(max(self._bytes, key=self._bytes.__getitem__))
        return before - self._length

    def take(self, most: int) -> list[T]:
        """Remove and return up to `most` items. Takes the oldest item of each tenant in turn."""
        taken: list[T] = []
        while self._waiting and len(taken) < most:
            tenant_id = next(iter(self._waiting))
            taken.append(self._pop(tenant_id))
            if tenant_id in self._waiting:
                self._waiting[tenant_id] = self._waiting.pop(tenant_id)
        return taken

    def oldest(self, tenant_id: str) -> T | None:
        queue = self._waiting.get(tenant_id)
        return queue[0][1] if queue else None

    def clear(self) -> None:
        self._waiting.clear()
        self._bytes.clear()
        self._length = self.size = 0

    def _length_of(self, tenant_id: str) -> int:
        return len(self._waiting[tenant_id])

    def _pop(self, tenant_id: str) -> T:
        queue = self._waiting[tenant_id]
        size, item = queue.popleft()
        self._bytes[tenant_id] -= size
        self._length -= 1
        self.size -= size
        if not queue:
            del self._waiting[tenant_id], self._bytes[tenant_id]
        return item


log = logging.getLogger(__name__)

# Maximum of queued events of all tenants together.
MAX_WAITING = 1_000
MAX_WAITING_BYTES = 8 << 20
# Limit of events per second, because the shippers need the processor time. BURST_EVENTS may be sent at once.
EVENTS_PER_SECOND, BURST_EVENTS = 2_000, 500
MAX_EVENTS_PER_PASS = 200
# Estimated bytes of a row of coa_requests.
_REQUEST_BYTES = 1_000
# Interval at which the cell reads which tenants a client watches, and announces itself to these clients.
LISTENER_POLL_SECONDS = 1.0
# If Redis does not respond for this time, no tenant counts as watched.
LAPSE_SECONDS = 10.0
RETRY_SECONDS = TIMEOUT_SECONDS = 1.0
# Limit of entries in Redis for all watched tenants of a cell, of MAX_ENTRY_BYTES each (100 MB). With more than fifty
# watched tenants, each tenant has fewer entries, but at least MIN_KEPT_ENTRIES. A cell has so few tenants that these
# minimums do not exceed the limit.
MAX_KEPT_ENTRIES = 50 * MAX_ENTRIES
MIN_KEPT_ENTRIES = 8
_RESERVE_NUMBERS = "SELECT array_agg(nextval(%s::regclass)) FROM generate_series(1, %s)"

# Creates an event. Arguments: bytes of the journal record, whether it was cleaned for storage, id of its row, tenant.
EventFactory = Callable[[bytes, bool, int, EventTenant], Event]


class LiveItem(NamedTuple):
    tenant_id: str
    # Bytes that the item occupies in memory.
    size: int
    event: Callable[[EventTenant], Event]


class LiveBatch:
    """Records of one shipped batch that become live events. `note` collects the records, `take_numbers` assigns ids.

    The batch stores bytes instead of objects. Parsing the sent records again takes less time than the garbage
    collection of thousands of objects.
    """

    def __init__(self, make: EventFactory, sequence: str, wanted: frozenset[str]) -> None:
        """Create the batch.

        `sequence` is the PostgreSQL sequence of the log's ids. `wanted` contains the tenants whose events a client
        watches.
        """
        self.wanted = wanted
        # Number of records by tenant, including records that the queue has dropped.
        self.noted: Counter[str] = Counter()
        self.items: list[LiveItem] = []
        self._make = make
        self._sequence = sequence
        self._kept: FairQueue[tuple[int, str, bytes, bool]] = FairQueue(most=MAX_WAITING, most_bytes=MAX_WAITING_BYTES)

    def note(self, place: int, tenant_id: str, payload: bytes, *, cleaned: bool) -> None:
        """Collect a record. `place` is the position of the record's row in the batch."""
        self.noted[tenant_id] += 1
        self._kept.put(tenant_id, len(payload), (place, tenant_id, payload, cleaned))

    def take_numbers(self, cursor: psycopg.Cursor) -> dict[int, int]:
        """Reserve ids for rows that become events, because event ids contain them. Returns the ids by position of
        the row in the batch."""
        if not self._kept:
            return {}
        row = cursor.execute(_RESERVE_NUMBERS, (self._sequence, len(self._kept))).fetchone()
        assert row is not None
        numbers: list[int] = row[0]
        kept = sorted(self._kept)
        self.items = [
            LiveItem(tenant_id, len(payload), partial(self._make, payload, cleaned, number))
            for (_, tenant_id, payload, cleaned), number in zip(kept, numbers, strict=True)
        ]
        return {place: number for (place, *_), number in zip(kept, numbers, strict=True)}


class _QueuedItem(NamedTuple):
    # Number of the event in the sequence of its tenant's events.
    number: int
    item: LiveItem


class _StreamEntry(NamedTuple):
    key: str
    fields: StreamFields
    events: int


class LiveFeed:
    def __init__(self, url: str, tenants: Callable[[], Mapping[str, str]], *, cell: str) -> None:
        """Create the feed. `url` is the URL of Redis. `tenants` returns the slugs of the cell's tenants by id."""
        self.counters: Counter[str] = Counter()
        # Ids of the tenants whose events a client watches.
        self.wanted: frozenset[str] = frozenset()
        self._client = connect_redis(url, timeout_seconds=TIMEOUT_SECONDS)
        self._tenants = tenants
        self._name = cell
        self._filled = threading.Condition()
        self._waiting: FairQueue[_QueuedItem] = FairQueue(most=MAX_WAITING, most_bytes=MAX_WAITING_BYTES)
        # For each tenant, the name under which this cell writes to the tenant's stream. The name changes when a client
        # begins to watch, because the numbers of earlier events have gaps.
        self._writers: dict[str, str] = {}
        # Number of each tenant's next event.
        self._next: Counter[str] = Counter()
        self._unsent: list[_StreamEntry] = []
        # Current maximum of entries in a tenant's stream.
        self._kept = MAX_ENTRIES
        # Streams that Redis rejects, and whose rejection is already logged.
        self._refused: set[str] = set()
        self._ask_at = self._answered_at = self._credited_at = time.monotonic()
        self._credit: float = BURST_EVENTS
        self._in_trouble = False

    def offer(self, items: Sequence[LiveItem], noted: Mapping[str, int] | None = None) -> None:
        """Queue events without waiting.

        `noted` contains the number of all events by tenant, if some events are missing in `items`.
        """
        if not (items or noted):
            return
        kept = Counter(each.tenant_id for each in items)
        with self._filled:
            for tenant_id, number in (noted or kept).items():
                self._next[tenant_id] += number - kept[tenant_id]
                self.counters["left_out"] += number - kept[tenant_id]
            for each in items:
                waiting = _QueuedItem(self._next[each.tenant_id], each)
                self._next[each.tenant_id] += 1
                self.counters["left_out"] += self._waiting.put(each.tenant_id, each.size, waiting)
            self._filled.notify()

    def offer_requests(self, ended: Sequence[CoaRequest]) -> None:
        self.offer(
            [
                LiveItem(str(each.tenant_id), _REQUEST_BYTES, _request_event(each))
                for each in ended
                if str(each.tenant_id) in self.wanted
            ]
        )

    def run(self, stop: threading.Event) -> None:
        while not stop.is_set():
            try:
                pause = self._step()
            except (redis.RedisError, OSError) as exc:
                self._trouble(exc)
                pause = RETRY_SECONDS
            stop.wait(pause)
        self._client.close()

    def _step(self) -> float:
        """Read the watched tenants from Redis, if a new reading is due, and send waiting events.

        Returns seconds to sleep.
        """
        now = time.monotonic()
        if now >= self._ask_at:
            self._ask(now)
        self._credit = min(BURST_EVENTS, self._credit + (now - self._credited_at) * EVENTS_PER_SECOND)
        self._credited_at = now
        if self._credit < 1:
            return 1 / EVENTS_PER_SECOND
        if not self._unsent:
            taken = self._take(min(MAX_EVENTS_PER_PASS, int(self._credit)), self._ask_at - now)
            self._credit -= len(taken)
            self._unsent = list(self._entries(taken))
        if self._unsent:
            self._send()
        return 0.0

    def _trouble(self, exc: Exception) -> None:
        self.counters["failures"] += 1
        if not self._in_trouble:
            self._in_trouble = True
            log.warning("no live events until Redis responds: %s", exc)
        self._client.connection_pool.disconnect()
        if time.monotonic() - self._answered_at > LAPSE_SECONDS:
            self._forget()

    def _forget(self) -> None:
        self.wanted = frozenset()
        self.counters["left_out"] += sum(each.events for each in self._unsent)
        self._unsent = []
        with self._filled:
            self.counters["left_out"] += len(self._waiting)
            self._waiting.clear()

    def _ask(self, now: float) -> None:
        ids = sorted(self._tenants())
        interests = self._client.mget([interest_key(tenant_id) for tenant_id in ids]) if ids else []
        listened = [tenant_id for tenant_id, interest in zip(ids, interests, strict=True) if interest is not None]
        watched = frozenset(listened)
        self._kept = max(MIN_KEPT_ENTRIES, min(MAX_ENTRIES, MAX_KEPT_ENTRIES // max(1, len(watched))))
        for tenant_id in watched - self.wanted:
            self._writers[tenant_id] = f"{self._name}-{os.urandom(4).hex()}"
        self.wanted = watched
        with self._filled:
            here = [(tenant_id, self._next_number(tenant_id)) for tenant_id in self.wanted]
        if not self._unsent:
            self._unsent = [
                _StreamEntry(events_key(tenant_id), build_entry(self._writers[tenant_id], number, ()), 0)
                for tenant_id, number in here
            ]
            self._send()
        self._ask_at, self._answered_at = now + LISTENER_POLL_SECONDS, now

    def _next_number(self, tenant_id: str) -> int:
        """Number of the next event that is sent for the tenant."""
        oldest = self._waiting.oldest(tenant_id)
        return oldest.number if oldest else self._next[tenant_id]

    def _take(self, most: int, patience: float) -> list[_QueuedItem]:
        with self._filled:
            self._filled.wait_for(lambda: len(self._waiting), timeout=max(0.0, patience))
            return self._waiting.take(most)

    def _entries(self, taken: list[_QueuedItem]) -> Iterator[_StreamEntry]:
        """Build stream entries, each with events of one tenant. The numbers of the events in an entry have no gap."""
        slugs = self._tenants()
        taken.sort(key=lambda each: each.item.tenant_id)
        for tenant_id, group in groupby(taken, lambda each: each.item.tenant_id):
            if tenant_id not in self.wanted or tenant_id not in slugs:
                continue
            writer, first, lines, size = self._writers[tenant_id], 0, list[bytes](), 0
            for number, item in group:
                line = self._made(item, EventTenant(tenant_id, slugs[tenant_id]))
                full = len(lines) == MAX_ENTRY_EVENTS or size + len(line) > MAX_ENTRY_BYTES
                if lines and (full or not line or number != first + len(lines)):
                    yield _StreamEntry(events_key(tenant_id), build_entry(writer, first, lines), len(lines))
                    lines, size = [], 0
                if line:
                    first = first if lines else number
                    lines.append(line)
                    size += len(line)
            if lines:
                yield _StreamEntry(events_key(tenant_id), build_entry(writer, first, lines), len(lines))

    def _made(self, item: LiveItem, tenant: EventTenant) -> bytes:
        """Return the event as bytes; b"" if it cannot be created.

        If an event cannot be created, clients notice the missing number.
        """
        try:
            return to_json(item.event(tenant))
        except Exception:  # house-rule: a record that our code cannot handle does not stop the others
            log.exception("cannot create an event")
            self.counters["left_out"] += 1
            return b""

    def _send(self) -> None:
        """Send the entries.

        After a failure, the agent sends the entries again. Clients recognize repeated entries by their numbers.
        """
        with self._client.pipeline(transaction=False) as pipeline:
            for each in self._unsent:
                pipeline.xadd(each.key, each.fields, maxlen=self._kept, approximate=False)
                pipeline.expire(each.key, RETENTION_SECONDS)
            answers = pipeline.execute(raise_on_error=False)[::2]
        refused = []
        for each, answer in zip(self._unsent, answers, strict=True):
            if _is_key_refused(answer):
                refused.append((each, answer))
            elif isinstance(answer, Exception):
                raise answer
        for each, answer in refused:
            self._refuse(each, answer)
        self._refused -= {each.key for each in self._unsent} - {each.key for each, _ in refused}
        self.counters["entries"] += len(self._unsent) - len(refused)
        self._unsent = []
        if self._in_trouble:
            self._in_trouble = False
            log.info("Redis responds: live events resume")

    def _refuse(self, refused: _StreamEntry, why: object) -> None:
        """Skip the stream that Redis rejects. Events of all other streams are still sent."""
        self.counters["left_out"] += refused.events
        self.counters["failures"] += 1
        if refused.key not in self._refused:
            self._refused.add(refused.key)
            log.warning("no live events in %s: %s", refused.key, why)


def _is_key_refused(answer: object) -> bool:
    """Whether Redis rejects only this stream, because of the type or the access rights of its key."""
    return isinstance(answer, redis.exceptions.NoPermissionError) or (
        isinstance(answer, redis.ResponseError) and str(answer).startswith("WRONGTYPE")
    )


def _request_event(request: CoaRequest) -> Callable[[EventTenant], Event]:
    return lambda tenant: coa.from_request(request, tenant=tenant)
