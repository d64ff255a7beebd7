"""Live events for listeners, in one Redis stream per tenant. The agents of the tenant's cells write the stream.

To request events, a listener sets a Redis key with an expiry, called the interest key. Agents check the interest keys
once a second, and write events only for tenants with an interest key. A stream keeps only the latest entries, so slow
listeners need no additional memory in Redis. Each writer numbers its events, so that listeners detect lost events.

All Redis keys begin with `admit:live:<tenant>:`, so that a Redis ACL can restrict a listener to its tenants.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Collection, Generator, Iterator, Mapping, Sequence
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
MAX_TENANTS = 100
_READ_ENTRIES = 16
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


class ListenerState:
    """Converts Redis replies to events and notices. Does no I/O, so that sync and async listeners can use it."""

    def __init__(self, tenants: Collection[TenantId], wanted: EventFilter, now: float) -> None:
        if not 0 < len(tenants) <= MAX_TENANTS:
            raise ValueError(f"a listener needs 1 to {MAX_TENANTS} tenants")
        self._tenants = {events_key(UUID(str(each))).encode(): _TenantStream(each, now) for each in tenants}
        self._wanted = wanted
        self._renewed_at = float("-inf")
        self._is_lost = False
        # Position of the last entry that was read, by stream.
        self.positions: dict[Any, Any] = {}

    @property
    def streams(self) -> list[bytes]:
        return list(self._tenants)

    def interest(self, now: float) -> list[str]:
        """Return the interest keys to set now, with the expiry INTEREST_SECONDS; [] if the keys need no renewal yet."""
        if now - self._renewed_at < INTEREST_SECONDS / 3:
            return []
        self._renewed_at = now
        return [interest_key(each.id) for each in self._tenants.values()]

    def begin(self, newest: Sequence[bytes | None]) -> None:
        """Set the starting positions. `newest` has the newest entry of each stream, or None for an empty stream."""
        self.positions = {stream: position or b"0-0" for stream, position in zip(self._tenants, newest, strict=True)}

    def take(self, reply: _StreamReply, now: float) -> Iterator[LiveEvent | StreamNotice]:
        if self._is_lost:
            self._is_lost = False
            yield StreamNotice("back")
        for stream, entries in reply:
            tenant = self._tenants[stream]
            for position, fields in entries:
                self.positions[stream] = position
                yield from self._entry(tenant, fields, now)
        for tenant in self._tenants.values():
            if now - tenant.last_entry_at > SILENT_SECONDS and not tenant.is_silent:
                tenant.is_silent = True
                yield StreamNotice("silent", tenant.id)

    def _entry(
        self, tenant: _TenantStream, fields: Mapping[bytes, bytes], now: float
    ) -> Iterator[LiveEvent | StreamNotice]:
        tenant.last_entry_at = now
        try:
            writer, first, lines = fields[b"writer"], int(fields[b"first"]), _decode_lines(fields[b"events"])
        except (KeyError, ValueError, RecursionError):
            # An agent of another version wrote an entry in another format.
            yield StreamNotice("left-out", tenant.id)
            return
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
            try:
                event = from_json(bytes(line))
            except (ValueError, RecursionError):
                yield StreamNotice("left-out", tenant.id, 1)
                continue
            if self._wanted.fits(event):
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
                if not state.positions:
                    state.begin([_newest_position(client.xrevrange(stream, count=1)) for stream in state.streams])
                for key in state.interest(time.monotonic()):
                    client.set(key, "1", ex=INTEREST_SECONDS)
                reply: Any = client.xread(state.positions, count=_READ_ENTRIES, block=int(_BLOCK_SECONDS * 1000))
            except (redis.RedisError, OSError):
                client.connection_pool.disconnect()
                yield from state.lost()
                yield None
                time.sleep(_RETRY_SECONDS)
                continue
            yield from state.take(reply, time.monotonic())
            yield None


async def listen_async(
    url: str, tenants: Collection[TenantId], wanted: EventFilter = ALL_EVENTS
) -> AsyncGenerator[LiveEvent | StreamNotice | None, None]:
    """Do the same as `listen` for async callers. The caller must close the iterator (contextlib.aclosing)."""
    state = ListenerState(tenants, wanted, time.monotonic())
    async with redis.asyncio.Redis.from_url(url, **_redis_options(_TIMEOUT_SECONDS)) as client:
        while True:
            try:
                if not state.positions:
                    state.begin([_newest_position(await client.xrevrange(stream, count=1)) for stream in state.streams])
                for key in state.interest(time.monotonic()):
                    await client.set(key, "1", ex=INTEREST_SECONDS)
                reply: Any = await client.xread(state.positions, count=_READ_ENTRIES, block=int(_BLOCK_SECONDS * 1000))
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


def _newest_position(entries: Any) -> bytes | None:  # noqa: ANN401  # redis-py replies are untyped
    return entries[0][0] if entries else None


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
