"""Live events for listeners, in one Redis stream per tenant. The agents of the tenant's cells write the stream.

To request events, a listener sets a Redis key with an expiry, called the interest key. Agents check the interest keys
once a second, and write events only for tenants with an interest key. A stream keeps only the latest entries, so slow
listeners need no additional memory in Redis. Each writer numbers its events, so that listeners detect lost events.

All Redis keys begin with `admit:live:<tenant>:`, so that a Redis ACL can restrict a listener to its tenants.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple
from uuid import UUID

import msgspec
import redis
import redis.asyncio
from redis.backoff import NoBackoff
from redis.retry import Retry

from nac.kit.ids import TenantId
from nac.logs.events.document import Event, from_json

# Maximum entries of a tenant's stream, together about 2 MB.
MAX_ENTRIES = 64
MAX_ENTRY_BYTES = 32 << 10
MAX_ENTRY_EVENTS = 50
RETENTION_SECONDS = 60
# Expiry of an interest key. Listeners renew their key three times in this period.
INTEREST_SECONDS = 9
# If no entry arrives in this time, a listener reports that no agent sends events. For each listener, agents write an
# entry at least once a second.
SILENT_SECONDS = 5.0
MAX_TENANTS = 1_000
# Maximum entries of one read: of each stream, and of all streams together (32 MB).
_READ_ENTRIES = 16
_READ_ENTRIES_IN_ALL = 1_024
# Pause after a read for each stream, because agents write an entry to each stream at least once a second. Without
# pauses, a listener to a thousand streams would read all the time.
_PAUSE_SECONDS = 0.000_25
_BLOCK_SECONDS = 0.5
_RETRY_SECONDS = 1.0
_TIMEOUT_SECONDS = 2.0
_MAX_WRITERS = 8
# The type of stream fields in redis-py, which has no narrower type.
StreamFields = dict[Any, Any]
_StreamReply = Sequence[tuple[bytes, Sequence[tuple[bytes, Mapping[bytes, bytes]]]]]
_decode_lines = msgspec.json.Decoder(list[msgspec.Raw]).decode


@dataclass(frozen=True, slots=True, kw_only=True)
class EventFilter:
    """A filter of events. All fields of the filter must match; "" and an empty set match every event."""

    # Values of `admit.kind`.
    kinds: frozenset[str] = frozenset()
    # If true, only rejects match.
    rejects: bool = False
    # "permit", "quarantine" or "deny".
    verdict: str = ""
    # MAC address in the format of events: AA-BB-CC-DD-EE-FF.
    mac: str = ""
    # User name or common name of the certificate, case-insensitive.
    user: str = ""
    # In lower case: NAS-Identifiers, addresses, or ids of registered NASes. One of them must match.
    nas: frozenset[str] = frozenset()
    # Id of the site.
    site: str = ""

    def fits(self, event: Event) -> bool:
        admit = event.admit
        return (
            (not self.kinds or admit.__struct_config__.tag in self.kinds)
            and (not self.rejects or "denied" in event.event.type)
            and (not self.verdict or getattr(admit, "verdict", "") == self.verdict)
            and (not self.mac or (event.client is not None and event.client.mac == self.mac))
            and (not self.user or self.user.lower() in _user_names(event))
            and (not self.nas or not self.nas.isdisjoint(_nas_names(event)))
            and (not self.site or (admit.site is not None and admit.site.id == self.site))
        )


ALL_EVENTS = EventFilter()


def events_key(tenant_id: object) -> str:
    return f"admit:live:{tenant_id}:events"


def interest_key(tenant_id: object) -> str:
    return f"admit:live:{tenant_id}:wanted"


def build_entry(writer: str, first: int, lines: Collection[bytes]) -> StreamFields:
    """Build a stream entry with events as JSON lines.

    `first` is the sequence number of the first event. An empty entry has the number of the writer's next event. A gap
    in a writer's numbers means lost events.
    """
    return {"writer": writer, "first": str(first), "events": b"[" + b",".join(lines) + b"]"}


def connect_redis(url: str, *, timeout_seconds: float) -> redis.Redis:
    """Connect to Redis, without automatic retries."""
    return redis.Redis.from_url(url, **_redis_options(timeout_seconds))


def _redis_options(timeout_seconds: float) -> dict[str, Any]:
    return {
        "socket_timeout": timeout_seconds,
        "socket_connect_timeout": timeout_seconds,
        "retry": Retry(NoBackoff(), 0),
        "protocol": 2,
        "client_name": "admit-live",
    }


class LiveEvent(NamedTuple):
    tenant_id: TenantId
    event: Event
    # The event as JSON.
    line: bytes


@dataclass(frozen=True, slots=True)
class StreamNotice:
    """A notice about the stream.

    * listening: an agent started to send the tenant's events.
    * silent: no agent sends the tenant's events.
    * left-out: the listener missed `count` events of the tenant (None if unknown). The filter does not apply to the
      missed events.
    * lost, back: the connection to Redis broke or was restored.
    """

    kind: Literal["listening", "silent", "left-out", "lost", "back"]
    tenant_id: TenantId | None = None
    count: int | None = None


class _TenantStream:
    """A listener's state for the stream of one tenant."""

    def __init__(self, tenant_id: TenantId, now: float) -> None:
        self.id = tenant_id
        # Expected sequence number of the next event, by writer.
        self.next: dict[bytes, int] = {}
        self.last_entry_at = now
        # None until the first entry arrives, or until the listener reports that no agent sends events.
        self.is_silent: bool | None = None


class _Entry(NamedTuple):
    writer: bytes
    first: int
    lines: list[msgspec.Raw]


class ListenerState:
    """Converts Redis replies to events and notices. Does no I/O, so that sync and async listeners can use it."""

    def __init__(
        self,
        tenants: Collection[TenantId],
        wanted: EventFilter,
        now: float,
        *,
        after: str = "",
        admits: Callable[[], bool] = lambda: True,
    ) -> None:
        """Create the state.

        `after` is the `resume_position` of an earlier listener. The listener then starts with the events after this
        position, or reports that it missed events.

        The listener calls `admits` for each event that matches the filter, and omits the event if the result is False.
        """
        self._tenants: dict[bytes, _TenantStream] = {}
        self._wanted = wanted
        self._has_filter = wanted != ALL_EVENTS
        self._admits = admits
        self._after = after
        self._renewed_at = float("-inf")
        self._is_lost = False
        # Position of the last entry that was read, by stream.
        self.positions: dict[Any, Any] = {}
        # Position for `after` of a later listener. Events after this position can repeat, but none is omitted. For one
        # tenant, the position is the id of an entry; for several tenants, a time in milliseconds.
        self.resume_position = after
        # Whether the last read left events of a stream in Redis.
        self.has_backlog = False
        self.set_tenants(tenants, now)

    def set_tenants(self, tenants: Collection[TenantId], now: float) -> None:
        """Change the tenants. The listener receives new events of added tenants."""
        if len(tenants) > MAX_TENANTS:
            raise ValueError(f"a listener can have at most {MAX_TENANTS} tenants")
        wanted = {events_key(UUID(str(each))).encode(): each for each in tenants}
        if wanted.keys() - self._tenants.keys():
            self._renewed_at = float("-inf")
        self._tenants = {key: self._tenants.get(key) or _TenantStream(each, now) for key, each in wanted.items()}
        self.positions = {key: position for key, position in self.positions.items() if key in wanted}

    @property
    def unstarted(self) -> list[bytes]:
        """Streams whose starting position is not set yet."""
        return [stream for stream in self._tenants if stream not in self.positions]

    @property
    def start(self) -> str:
        """Id of the entry, or `+`: the listener starts after the newest entry that is not newer than this id."""
        return self._after or "+"

    @property
    def entries(self) -> int:
        """Maximum number of entries of each stream in one read."""
        return max(1, min(_READ_ENTRIES, _READ_ENTRIES_IN_ALL // max(1, len(self.positions))))

    @property
    def pause_seconds(self) -> float:
        return 0.0 if self.has_backlog else len(self.positions) * _PAUSE_SECONDS

    def interest(self, now: float) -> list[str]:
        """Return the interest keys to set now, with the expiry INTEREST_SECONDS; [] if the keys need no renewal yet."""
        if now - self._renewed_at < INTEREST_SECONDS / 3:
            return []
        self._renewed_at = now
        return [interest_key(each.id) for each in self._tenants.values()]

    def begin(self, streams: Sequence[bytes], newest: Sequence[Any]) -> Iterator[StreamNotice]:
        """Set the starting positions. `newest` has the reply of XREVRANGE for each stream, up to `start`."""
        incomplete = []
        for stream, entries in zip(streams, newest, strict=True):
            tenant = self._tenants.get(stream)
            if tenant is None:
                # The caller removed the tenant meanwhile.
                continue
            position, fields = entries[0] if entries else (b"0-0", {})
            self.positions[stream] = position
            if not self._after:
                continue
            # Redis removes the oldest entries first. If this entry still exists, all later entries exist too.
            entry = _parse_entry(fields)
            if entry is None:
                incomplete.append(tenant.id)
            else:
                tenant.next[entry.writer] = entry.first + len(entry.lines)
        self._after = ""
        if not self.resume_position:
            self._advance(entries[0][0] for entries in newest if entries)
        if incomplete:
            yield StreamNotice("left-out", incomplete[0] if len(self._tenants) == 1 else None)

    def take(self, reply: _StreamReply, now: float) -> Iterator[LiveEvent | StreamNotice]:
        if self._is_lost:
            self._is_lost = False
            yield StreamNotice("back")
        most, self.has_backlog = self.entries, False
        for stream, entries in reply:
            tenant = self._tenants.get(stream)
            if tenant is None:
                self.positions.pop(stream, None)
                continue
            for position, fields in entries:
                self.positions[stream] = position
                yield from self._entry(tenant, fields, now)
            self.has_backlog |= len(entries) == most and entries[-1][1].get(b"events", b"[]") != b"[]"
        self._advance(entries[-1][0] for _, entries in reply if entries)
        for tenant in self._tenants.values():
            if now - tenant.last_entry_at > SILENT_SECONDS and not tenant.is_silent:
                tenant.is_silent = True
                yield StreamNotice("silent", tenant.id)

    def _advance(self, read: Iterable[bytes]) -> None:
        """Update `resume_position` after a read. `read` has the position of the last entry of each stream."""
        positions = list(read)
        if not positions:
            return
        if len(self._tenants) == 1:
            self.resume_position = positions[0].decode()
            return
        # Another stream can still get an entry in the same millisecond.
        complete = min(int(each.partition(b"-")[0]) for each in positions) - 1
        before = int(self.resume_position.partition("-")[0] or 0)
        self.resume_position = str(max(before, complete))

    def _entry(
        self, tenant: _TenantStream, fields: Mapping[bytes, bytes], now: float
    ) -> Iterator[LiveEvent | StreamNotice]:
        tenant.last_entry_at = now
        entry = _parse_entry(fields)
        if entry is None:
            # An agent of another version wrote an entry in another format.
            yield StreamNotice("left-out", tenant.id)
            return
        writer, first, lines = entry
        if tenant.is_silent is not False:
            tenant.is_silent = False
            yield StreamNotice("listening", tenant.id)
        expected = tenant.next.get(writer)
        if expected is None:
            if tenant.next:
                # The previous agent ended, or a new writer started after a time without listeners.
                yield StreamNotice("left-out", tenant.id)
            while len(tenant.next) >= _MAX_WRITERS:
                del tenant.next[next(iter(tenant.next))]
            expected = first
        if first > expected:
            yield StreamNotice("left-out", tenant.id, first - expected)
        tenant.next[writer] = max(expected, first + len(lines))
        for line in lines[max(0, expected - first) :]:
            # Without a filter, the listener need not decode omitted events.
            if not self._has_filter and not self._admits():
                continue
            try:
                event = from_json(bytes(line))
            except (ValueError, RecursionError):
                yield StreamNotice("left-out", tenant.id, 1)
                continue
            if not self._has_filter or (self._wanted.fits(event) and self._admits()):
                yield LiveEvent(tenant.id, event, bytes(line))

    def lost(self) -> Iterator[StreamNotice]:
        if not self._is_lost:
            self._is_lost = True
            # Set the interest keys again at once, because a restarted Redis has lost them.
            self._renewed_at = float("-inf")
            yield StreamNotice("lost")


def listen(
    url: str, tenants: Collection[TenantId], wanted: EventFilter = ALL_EVENTS
) -> Generator[LiveEvent | StreamNotice | None, None, None]:
    """Yield notices, and the new events of these tenants that match `wanted`, without end.

    After each read from Redis, yields None, even if no events arrived. While Redis is not available, continues to
    retry. If a caller reads too slowly, the caller loses events and gets a notice.
    """
    state = ListenerState(tenants, wanted, time.monotonic())
    with connect_redis(url, timeout_seconds=_TIMEOUT_SECONDS) as client:
        while True:
            try:
                if streams := state.unstarted:
                    newest = [client.xrevrange(stream, max=state.start, count=1) for stream in streams]
                    yield from state.begin(streams, newest)
                for key in state.interest(time.monotonic()):
                    client.set(key, "1", ex=INTEREST_SECONDS)
                reply: Any = client.xread(state.positions, count=state.entries, block=int(_BLOCK_SECONDS * 1000))
            except (redis.RedisError, OSError):
                client.connection_pool.disconnect()
                yield from state.lost()
                yield None
                time.sleep(_RETRY_SECONDS)
                continue
            yield from state.take(reply, time.monotonic())
            yield None


async def listen_async(url: str, state: ListenerState) -> AsyncGenerator[LiveEvent | StreamNotice | None, None]:
    """Do the same as `listen` for async callers. The caller must close the iterator (contextlib.aclosing).

    The caller can change the tenants of `state` meanwhile.
    """
    async with redis.asyncio.Redis.from_url(url, **_redis_options(_TIMEOUT_SECONDS)) as client:
        while True:
            try:
                if streams := state.unstarted:
                    async with client.pipeline(transaction=False) as pipeline:
                        for stream in streams:
                            pipeline.xrevrange(stream, max=state.start, count=1)
                        newest = await pipeline.execute()
                    for notice in state.begin(streams, newest):
                        yield notice
                if keys := state.interest(time.monotonic()):
                    async with client.pipeline(transaction=False) as pipeline:
                        for key in keys:
                            pipeline.set(key, "1", ex=INTEREST_SECONDS)
                        await pipeline.execute()
                reply: Any = ()
                if state.positions:
                    reply = await client.xread(state.positions, count=state.entries, block=int(_BLOCK_SECONDS * 1000))
                else:
                    await asyncio.sleep(_BLOCK_SECONDS)
            except (redis.RedisError, OSError):
                await client.connection_pool.disconnect()
                for notice in state.lost():
                    yield notice
                yield None
                await asyncio.sleep(_RETRY_SECONDS)
                continue
            for item in state.take(reply, time.monotonic()):
                yield item
            yield None
            await asyncio.sleep(state.pause_seconds)


def _parse_entry(fields: Mapping[bytes, bytes]) -> _Entry | None:
    """Return the entry; None if the format is unknown."""
    try:
        return _Entry(fields[b"writer"], int(fields[b"first"]), _decode_lines(fields[b"events"]))
    except (KeyError, ValueError, RecursionError):
        return None


def _user_names(event: Event) -> list[str]:
    names = [event.user.name] if event.user else []
    if event.tls and event.tls.client and event.tls.client.x509.subject:
        names += event.tls.client.x509.subject.common_name
    return [name.lower() for name in names]


def _nas_names(event: Event) -> list[str]:
    observer, nas = event.observer, event.admit.nas
    names = [observer.name, *observer.ip] if observer else []
    if nas is not None and nas.id is not None:
        names.append(nas.id)
    return [name.lower() for name in names]
