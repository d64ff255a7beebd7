"""Live events for listeners: one Redis stream per tenant, written by the agents of its cells.

A listener sets a key with an expiry. Agents check the keys once a second and then write what they ship. Streams keep
only the latest entries, so slow listeners cost nothing. Each entry has its writer's sequence number, so listeners
detect lost events.

Keys begin with admit:live:<tenant>: so that a Redis ACL can restrict a listener to its tenants.
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

# Per tenant, at most 2 MB; only a single large event can exceed it.
MAX_ENTRIES = 64
MAX_ENTRY_BYTES = 32 << 10
MAX_ENTRY_EVENTS = 50
RETENTION_SECONDS = 60
# Listeners renew their key three times in this period.
INTEREST_SECONDS = 9
# Agents write at least once a second while they see listeners.
SILENT_SECONDS = 5.0
MAX_TENANTS = 100
_READ_ENTRIES = 16
_BLOCK_SECONDS = 0.5
_RETRY_SECONDS = 1.0
_TIMEOUT_SECONDS = 2.0
_MAX_WRITERS = 8
# redis-py's type; it has no narrower one.
StreamFields = dict[Any, Any]
_StreamReply = Sequence[tuple[bytes, Sequence[tuple[bytes, Mapping[bytes, bytes]]]]]
_decode_lines = msgspec.json.Decoder(list[msgspec.Raw]).decode


@dataclass(frozen=True, slots=True, kw_only=True)
class EventFilter:
    """Filters, all of which must match; "" and empty mean any."""

    # Kinds of `admit.kind`.
    kinds: frozenset[str] = frozenset()
    # Only rejects.
    rejects: bool = False
    # permit | quarantine | deny
    verdict: str = ""
    # As in events: AA-BB-CC-DD-EE-FF.
    mac: str = ""
    # User name or common name of the certificate, case-insensitive.
    user: str = ""
    # Any of: NAS-Identifier, address, id of the registered NAS; in lower case.
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
    """Build a stream entry. `first` is the number of its first event (or of the next one, if it is empty). A gap in a
    writer's numbers means lost events."""
    return {"writer": writer, "first": str(first), "events": b"[" + b",".join(lines) + b"]"}


def connect_redis(url: str, *, timeout_seconds: float) -> redis.Redis:
    """Connect without automatic retries."""
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
    """A notice about the connection.

    listening: an agent started to send. silent: no agent sends. left-out: `count` events (None if unknown) of the
    tenant were lost, whatever the filter. lost, back: the connection to Redis.
    """

    kind: Literal["listening", "silent", "left-out", "lost", "back"]
    tenant_id: TenantId | None = None
    count: int | None = None


class _TenantStream:
    """State of one tenant."""

    def __init__(self, tenant_id: TenantId, now: float) -> None:
        self.id = tenant_id
        # Next expected number, by writer.
        self.next: dict[bytes, int] = {}
        self.heard_at = now
        # None until the first entry or silence.
        self.is_silent: bool | None = None


class ListenerState:
    """Converts Redis replies to events. Does no I/O, so that sync and async listeners share it."""

    def __init__(self, tenants: Collection[TenantId], wanted: EventFilter, now: float) -> None:
        if not 0 < len(tenants) <= MAX_TENANTS:
            raise ValueError(f"a listener needs 1 to {MAX_TENANTS} tenants")
        self._tenants = {events_key(UUID(str(each))).encode(): _TenantStream(each, now) for each in tenants}
        self._wanted = wanted
        self._said_at = float("-inf")
        self._is_lost = False
        # Last position read, by stream.
        self.positions: dict[Any, Any] = {}

    @property
    def streams(self) -> list[bytes]:
        return list(self._tenants)

    def interest(self, now: float) -> list[str]:
        """Return the keys to set now, with expiry INTEREST_SECONDS; [] if not due."""
        if now - self._said_at < INTEREST_SECONDS / 3:
            return []
        self._said_at = now
        return [interest_key(each.id) for each in self._tenants.values()]

    def begin(self, newest: Sequence[bytes | None]) -> None:
        """Start after the `newest` entry of each of `streams`."""
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
            if now - tenant.heard_at > SILENT_SECONDS and not tenant.is_silent:
                tenant.is_silent = True
                yield StreamNotice("silent", tenant.id)

    def _entry(
        self, tenant: _TenantStream, fields: Mapping[bytes, bytes], now: float
    ) -> Iterator[LiveEvent | StreamNotice]:
        tenant.heard_at = now
        try:
            writer, first, lines = fields[b"writer"], int(fields[b"first"]), _decode_lines(fields[b"events"])
        except (KeyError, ValueError, RecursionError):
            # An agent of another version with another entry format.
            yield StreamNotice("left-out", tenant.id)
            return
        if tenant.is_silent is not False:
            tenant.is_silent = False
            yield StreamNotice("listening", tenant.id)
        expected = tenant.next.get(writer)
        if expected is None:
            if tenant.next:
                # The previous agent ended, or saw no listeners for a while.
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
            # A restarted Redis has lost the key.
            self._said_at = float("-inf")
            yield StreamNotice("lost")


def listen(
    url: str, tenants: Collection[TenantId], wanted: EventFilter = ALL_EVENTS
) -> Generator[LiveEvent | StreamNotice | None, None, None]:
    """Yield events of these tenants from now on, without end; None after a moment without events.

    Waits for Redis indefinitely. Events that are not fetched in time are lost, with a notice.
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
    """Yield like `listen`, asynchronously. Close it (contextlib.aclosing)."""
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
            for heard in state.take(reply, time.monotonic()):
                yield heard
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
