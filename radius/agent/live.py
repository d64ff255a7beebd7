"""Tells listeners what was shipped, over Redis, while somebody listens (nac.events.live_stream has the other end).

Shippers hand over what is committed and go on at once: a thread of its own makes the events and sends them. Between the
two stands a queue that forgets the oldest of whoever has most in it. Redis may hang, fail or forget everything: events
are then left out, which is counted, and the numbers in the entries tell it to the listeners.
"""

import logging
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby
from typing import NamedTuple

import psycopg
import redis

from nac.events import coa
from nac.events.document import Event, to_json
from nac.events.event_values import EventTenant
from nac.events.live_stream import (
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
from radius.agent.live_queue import FairQueue

log = logging.getLogger(__name__)

# What waits to be sent, of all tenants.
MOST_WAITING = 1_000
MOST_WAITING_BYTES = 8 << 20
# More than anybody reads; beyond it, processor time would be missed by the shippers. BURST may come at once.
PER_SECOND, BURST = 2_000, 500
PASS_EVENTS = 200
# What a row of coa_requests takes, about.
_REQUEST_BYTES = 1_000
# How often it is asked who listens, and each of them told that this cell is there.
ASK_SECONDS = 1.0
# After this time without an answer nobody is taken to listen.
LAPSE_SECONDS = 10.0
RETRY_SECONDS = TIMEOUT_SECONDS = 1.0
# Of all tenants of a cell that are listened to, of ENTRY_BYTES each (100 MB): where these are more than fifty, each has
# fewer, so that none is left out. A cell has no more slots than leave LEAST_KEPT to each.
KEPT_IN_ALL = 50 * MAX_ENTRIES
LEAST_KEPT = 8
_NUMBERS = "SELECT array_agg(nextval(%s::regclass)) FROM generate_series(1, %s)"

# Makes the event of a journal record: its bytes, whether it was stored cleaned, and the id of its row.
Make = Callable[[bytes, bool, int, EventTenant], Event]


class Told(NamedTuple):
    tenant_id: str
    # What it holds in memory.
    size: int
    event: Callable[[EventTenant], Event]


class LiveBatch:
    """What of a batch of a stream is to be told: noted while it is read, given its ids while it is written.

    As bytes, not as what was read out of them: thousands of records that live on cost the collector of garbage more
    than reading those again that are sent.
    """

    def __init__(self, make: Make, sequence: str, wanted: frozenset[str]) -> None:
        """`sequence` is that of the log's ids."""
        self.wanted = wanted
        # By tenant, those included that are not kept.
        self.noted: Counter[str] = Counter()
        self.told: list[Told] = []
        self._make = make
        self._sequence = sequence
        self._kept: FairQueue[tuple[int, str, bytes, bool]] = FairQueue(
            most=MOST_WAITING, most_bytes=MOST_WAITING_BYTES
        )

    def note(self, place: int, tenant_id: str, payload: bytes, *, cleaned: bool) -> None:
        """`place` is that of the row among those of the batch."""
        self.noted[tenant_id] += 1
        self._kept.put(tenant_id, len(payload), (place, tenant_id, payload, cleaned))

    def take_numbers(self, cursor: psycopg.Cursor) -> dict[int, int]:
        """Ids by place, for the rows that have an event: its id is made of theirs."""
        if not self._kept:
            return {}
        row = cursor.execute(_NUMBERS, (self._sequence, len(self._kept))).fetchone()
        assert row is not None
        numbers: list[int] = row[0]
        kept = sorted(self._kept)
        self.told = [
            Told(tenant_id, len(payload), partial(self._make, payload, cleaned, number))
            for (_, tenant_id, payload, cleaned), number in zip(kept, numbers, strict=True)
        ]
        return {place: number for (place, *_), number in zip(kept, numbers, strict=True)}


class _Waiting(NamedTuple):
    # Of the tenant's events, in the order of being shipped.
    number: int
    told: Told


class _Entry(NamedTuple):
    key: str
    fields: StreamFields
    events: int


class LiveFeed:
    def __init__(self, url: str, tenants: Callable[[], Mapping[str, str]], *, cell: str) -> None:
        """`url` of Redis; `tenants` tells the slugs of the cell's tenants by id."""
        self.counters: Counter[str] = Counter()
        # Tenants that somebody listens to.
        self.wanted: frozenset[str] = frozenset()
        self._client = connect_redis(url, timeout_seconds=TIMEOUT_SECONDS)
        self._tenants = tenants
        self._name = cell
        self._filled = threading.Condition()
        self._waiting: FairQueue[_Waiting] = FairQueue(most=MOST_WAITING, most_bytes=MOST_WAITING_BYTES)
        # Another name each time that somebody begins to listen: in between nothing was numbered.
        self._writers: dict[str, str] = {}
        # The number of each tenant's next event.
        self._next: Counter[str] = Counter()
        self._unsent: list[_Entry] = []
        # Entries of a tenant's stream.
        self._kept = MAX_ENTRIES
        # Of tenants that Redis refuses us, which was logged.
        self._refused: set[str] = set()
        self._ask_at = self._answered_at = self._credited_at = time.monotonic()
        self._credit: float = BURST
        self._in_trouble = False

    def offer(self, told: Sequence[Told], noted: Mapping[str, int] | None = None) -> None:
        """Never waits. `noted` counts by tenant what there was to tell, where that is more."""
        if not (told or noted):
            return
        kept = Counter(each.tenant_id for each in told)
        with self._filled:
            for tenant_id, number in (noted or kept).items():
                self._next[tenant_id] += number - kept[tenant_id]
                self.counters["left_out"] += number - kept[tenant_id]
            for each in told:
                waiting = _Waiting(self._next[each.tenant_id], each)
                self._next[each.tenant_id] += 1
                self.counters["left_out"] += self._waiting.put(each.tenant_id, each.size, waiting)
            self._filled.notify()

    def offer_requests(self, ended: Sequence[CoaRequest]) -> None:
        self.offer(
            [
                Told(str(each.tenant_id), _REQUEST_BYTES, _event_of(each))
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
        """Ask or send, whichever is due; returns for how long to do nothing, seconds."""
        now = time.monotonic()
        if now >= self._ask_at:
            self._ask(now)
        self._credit = min(BURST, self._credit + (now - self._credited_at) * PER_SECOND)
        self._credited_at = now
        if self._credit < 1:
            return 1 / PER_SECOND
        if not self._unsent:
            taken = self._take(min(PASS_EVENTS, int(self._credit)), self._ask_at - now)
            self._credit -= len(taken)
            self._unsent = list(self._entries(taken))
        if self._unsent:
            self._send()
        return 0.0

    def _trouble(self, exc: Exception) -> None:
        self.counters["failures"] += 1
        if not self._in_trouble:
            self._in_trouble = True
            log.warning("no live events until Redis answers: %s", exc)
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
        asked = self._client.mget([interest_key(tenant_id) for tenant_id in ids]) if ids else []
        listened = [tenant_id for tenant_id, found in zip(ids, asked, strict=True) if found is not None]
        wanted = frozenset(listened)
        self._kept = max(LEAST_KEPT, min(MAX_ENTRIES, KEPT_IN_ALL // max(1, len(wanted))))
        for tenant_id in wanted - self.wanted:
            self._writers[tenant_id] = f"{self._name}-{os.urandom(4).hex()}"
        self.wanted = wanted
        with self._filled:
            here = [(tenant_id, self._number_of(tenant_id)) for tenant_id in self.wanted]
        if not self._unsent:
            self._unsent = [
                _Entry(events_key(tenant_id), build_entry(self._writers[tenant_id], number, ()), 0)
                for tenant_id, number in here
            ]
            self._send()
        self._ask_at, self._answered_at = now + ASK_SECONDS, now

    def _number_of(self, tenant_id: str) -> int:
        """Of the tenant's next event to be sent."""
        oldest = self._waiting.oldest(tenant_id)
        return oldest.number if oldest else self._next[tenant_id]

    def _take(self, most: int, patience: float) -> list[_Waiting]:
        with self._filled:
            self._filled.wait_for(lambda: len(self._waiting), timeout=max(0.0, patience))
            return self._waiting.take(most)

    def _entries(self, taken: list[_Waiting]) -> Iterator[_Entry]:
        """By tenant, without a gap in the numbers of an entry."""
        slugs = self._tenants()
        taken.sort(key=lambda each: each.told.tenant_id)
        for tenant_id, group in groupby(taken, lambda each: each.told.tenant_id):
            if tenant_id not in self.wanted or tenant_id not in slugs:
                continue
            writer, first, lines, size = self._writers[tenant_id], 0, list[bytes](), 0
            for number, told in group:
                line = self._made(told, EventTenant(tenant_id, slugs[tenant_id]))
                full = len(lines) == MAX_ENTRY_EVENTS or size + len(line) > MAX_ENTRY_BYTES
                if lines and (full or not line or number != first + len(lines)):
                    yield _Entry(events_key(tenant_id), build_entry(writer, first, lines), len(lines))
                    lines, size = [], 0
                if line:
                    first = first if lines else number
                    lines.append(line)
                    size += len(line)
            if lines:
                yield _Entry(events_key(tenant_id), build_entry(writer, first, lines), len(lines))

    def _made(self, told: Told, tenant: EventTenant) -> bytes:
        """b"" where none can be made: the numbers tell that it is missing."""
        try:
            return to_json(told.event(tenant))
        except Exception:  # house-rule: whatever one record does to our code, the others are told
            log.exception("an event cannot be made")
            self.counters["left_out"] += 1
            return b""

    def _send(self) -> None:
        """What was perhaps sent before comes again: listeners know it by its number."""
        with self._client.pipeline(transaction=False) as pipeline:
            for each in self._unsent:
                pipeline.xadd(each.key, each.fields, maxlen=self._kept, approximate=False)
                pipeline.expire(each.key, RETENTION_SECONDS)
            answers = pipeline.execute(raise_on_error=False)[::2]
        refused = []
        for each, answer in zip(self._unsent, answers, strict=True):
            if _is_of_key(answer):
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
            log.info("Redis answers: live events again")

    def _refuse(self, refused: _Entry, why: object) -> None:
        """One tenant's stream does not take anything: the others' go on."""
        self.counters["left_out"] += refused.events
        self.counters["failures"] += 1
        if refused.key not in self._refused:
            self._refused.add(refused.key)
            log.warning("no live events in %s: %s", refused.key, why)


def _is_of_key(answer: object) -> bool:
    """Whether Redis refuses this key alone: it is another's, or not ours to write (ACL)."""
    return isinstance(answer, redis.exceptions.NoPermissionError) or (
        isinstance(answer, redis.ResponseError) and str(answer).startswith("WRONGTYPE")
    )


def _event_of(request: CoaRequest) -> Callable[[EventTenant], Event]:
    return lambda tenant: coa.from_request(request, tenant=tenant)
