"""Events as they are shipped, for whoever listens: a Redis stream of each tenant, written by the agents of its cells.

A listener says that it listens by a key that lapses; an agent looks once a second, and from then on writes what it
ships. The stream keeps the last entries alone, so a listener that does not read costs nothing more than one that does.
Each entry says which number its first event has among those of its writer: what is missing is told as left out.

Names begin with admit:live:<tenant>: so that an ACL of Redis can bind a listener to its tenants.
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

from nac.events.document import Event, from_json
from nac.events.filtering import EVERYTHING, Filter
from nac.ids import TenantId

# Of a tenant, 2 MB at most; only a single event may make an entry larger.
KEPT_ENTRIES = 64
ENTRY_BYTES = 32 << 10
ENTRY_EVENTS = 50
KEPT_SECONDS = 60
# A listener says again that it listens every third of this.
INTEREST_SECONDS = 9
# An agent writes at least once a second to whom it hears listening.
SILENT_SECONDS = 5.0
MOST_TENANTS = 100
_READ_ENTRIES = 16
_BLOCK_SECONDS = 0.5
_RETRY_SECONDS = 1.0
_TIMEOUT_SECONDS = 2.0
_MOST_WRITERS = 8

# As redis-py takes them, which has no narrower type.
Fields = dict[Any, Any]
_Reply = Sequence[tuple[bytes, Sequence[tuple[bytes, Mapping[bytes, bytes]]]]]
_lines = msgspec.json.Decoder(list[msgspec.Raw]).decode


def events_key(tenant_id: object) -> str:
    return f"admit:live:{tenant_id}:events"


def interest_key(tenant_id: object) -> str:
    return f"admit:live:{tenant_id}:wanted"


def entry(writer: str, first: int, lines: Collection[bytes]) -> Fields:
    """`first` is the number of the first event or, of an entry without any, of the next one that comes. A writer's
    numbers have no gap but for what it left out."""
    return {"writer": writer, "first": str(first), "events": b"[" + b",".join(lines) + b"]"}


def connect(url: str, *, timeout_seconds: float) -> redis.Redis:
    """Tries nothing again by itself."""
    return redis.Redis.from_url(url, **_options(timeout_seconds))


def _options(timeout_seconds: float) -> dict[str, Any]:
    return {
        "socket_timeout": timeout_seconds,
        "socket_connect_timeout": timeout_seconds,
        "retry": Retry(NoBackoff(), 0),
        "protocol": 2,
        "client_name": "admit-live",
    }


class Heard(NamedTuple):
    tenant_id: TenantId
    event: Event
    # The same as JSON.
    line: bytes


@dataclass(frozen=True, slots=True)
class Notice:
    """Something about the listening itself.

    listening: an agent sends what it ships, for the first time or again. silent: none does.
    left-out: `count` events (None where nobody knows) of the tenant did not come, whether they would fit the filter or
    not. lost, back: the connection to Redis.
    """

    kind: Literal["listening", "silent", "left-out", "lost", "back"]
    tenant_id: TenantId | None = None
    count: int | None = None


class _Tenant:
    """What was heard of one tenant."""

    def __init__(self, tenant_id: TenantId, now: float) -> None:
        self.id = tenant_id
        # The number that comes next, by writer.
        self.next: dict[bytes, int] = {}
        self.heard_at = now
        # None until the first word, or the first silence.
        self.is_silent: bool | None = None


class Listening:
    """Makes events of what Redis returns; reads nothing itself, so that both ways of waiting share it."""

    def __init__(self, tenants: Collection[TenantId], wanted: Filter, now: float) -> None:
        if not 0 < len(tenants) <= MOST_TENANTS:
            raise ValueError(f"events are listened to of 1 to {MOST_TENANTS} tenants at a time")
        self._tenants = {events_key(UUID(str(each))).encode(): _Tenant(each, now) for each in tenants}
        self._wanted = wanted
        self._said_at = float("-inf")
        self._is_lost = False
        # By stream: what was read last.
        self.positions: dict[Any, Any] = {}

    @property
    def streams(self) -> list[bytes]:
        return list(self._tenants)

    def interest(self, now: float) -> list[str]:
        """Keys to write now, with the expiry INTEREST_SECONDS; [] while that is not due."""
        if now - self._said_at < INTEREST_SECONDS / 3:
            return []
        self._said_at = now
        return [interest_key(each.id) for each in self._tenants.values()]

    def begin(self, newest: Sequence[bytes | None]) -> None:
        """`newest` entry of each of `streams`: what comes after it is told."""
        self.positions = {stream: position or b"0-0" for stream, position in zip(self._tenants, newest, strict=True)}

    def take(self, reply: _Reply, now: float) -> Iterator[Heard | Notice]:
        if self._is_lost:
            self._is_lost = False
            yield Notice("back")
        for stream, entries in reply:
            tenant = self._tenants[stream]
            for position, fields in entries:
                self.positions[stream] = position
                yield from self._entry(tenant, fields, now)
        for tenant in self._tenants.values():
            if now - tenant.heard_at > SILENT_SECONDS and not tenant.is_silent:
                tenant.is_silent = True
                yield Notice("silent", tenant.id)

    def _entry(self, tenant: _Tenant, fields: Mapping[bytes, bytes], now: float) -> Iterator[Heard | Notice]:
        tenant.heard_at = now
        try:
            writer, first, lines = fields[b"writer"], int(fields[b"first"]), _lines(fields[b"events"])
        except (KeyError, ValueError, RecursionError):
            # An agent of another version, which writes entries of another form.
            yield Notice("left-out", tenant.id)
            return
        if tenant.is_silent is not False:
            tenant.is_silent = False
            yield Notice("listening", tenant.id)
        expected = tenant.next.get(writer)
        if expected is None:
            if tenant.next:
                # The agent before it has ended, or took nobody to be listening for a while.
                yield Notice("left-out", tenant.id)
            while len(tenant.next) >= _MOST_WRITERS:
                del tenant.next[next(iter(tenant.next))]
            expected = first
        if first > expected:
            yield Notice("left-out", tenant.id, first - expected)
        tenant.next[writer] = max(expected, first + len(lines))
        for line in lines[max(0, expected - first) :]:
            try:
                event = from_json(bytes(line))
            except (ValueError, RecursionError):
                yield Notice("left-out", tenant.id, 1)
                continue
            if self._wanted.fits(event):
                yield Heard(tenant.id, event, bytes(line))

    def lost(self) -> Iterator[Notice]:
        if not self._is_lost:
            self._is_lost = True
            # A Redis that comes back has forgotten it.
            self._said_at = float("-inf")
            yield Notice("lost")


def listen(
    url: str, tenants: Collection[TenantId], wanted: Filter = EVERYTHING
) -> Generator[Heard | Notice | None, None, None]:
    """Events of these tenants and of no other, from now on, without end; None where nothing came for a moment.

    Waits for Redis as long as it takes. What is not fetched in time is left out, and that is told.
    """
    state = Listening(tenants, wanted, time.monotonic())
    with connect(url, timeout_seconds=_TIMEOUT_SECONDS) as client:
        while True:
            try:
                if not state.positions:
                    state.begin([_position(client.xrevrange(stream, count=1)) for stream in state.streams])
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
    url: str, tenants: Collection[TenantId], wanted: Filter = EVERYTHING
) -> AsyncGenerator[Heard | Notice | None, None]:
    """As `listen`, for an event stream; to be closed (contextlib.aclosing)."""
    state = Listening(tenants, wanted, time.monotonic())
    async with redis.asyncio.Redis.from_url(url, **_options(_TIMEOUT_SECONDS)) as client:
        while True:
            try:
                if not state.positions:
                    state.begin([_position(await client.xrevrange(stream, count=1)) for stream in state.streams])
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


def _position(entries: Any) -> bytes | None:  # noqa: ANN401  # what redis-py makes of a reply has no type
    return entries[0][0] if entries else None
