"""Streams of live events to clients, as server-sent events (WHATWG HTML, "Server-sent events").

A stream runs in the event loop. Between checks of the caller, a stream uses no thread and no database connection, and
does not count as a running request.
"""

import json
import random
import time
from asyncio import Task, create_task, gather, sleep, timeout, wait
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import aclosing, contextmanager, suppress
from http import HTTPStatus
from typing import Any, Final

import msgspec
from fastapi import FastAPI, Response
from starlette.types import Receive, Scope, Send

from api.application_state import get_settings
from api.caller import Caller, authenticate_caller, bearer
from api.connections import mark_endless
from api.thread_limits import run_in_thread
from nac.kit.errors import AdmitError
from nac.kit.ids import TenantId
from nac.logs.events.document import Organization, to_json
from nac.logs.events.live_stream import EventFilter, ListenerState, LiveEvent, StreamNotice, listen_async

# Slugs of tenants by id.
Slugs = Mapping[TenantId, str]

# Limits of one process.
MAX_CALLER_STREAMS = 6
MAX_STREAMS = 500
# Maximum number of tenants of all streams together. Listening to this many idle tenants takes two thirds of a core.
MAX_STREAM_TENANTS = 10_000
MAX_SECONDS: Final = 3_600.0
# Interval at which a stream checks the caller's credential and permissions.
CHECK_SECONDS = 10.0
# Number of checks in a row that can fail because of an outage, before the stream ends.
_MAX_FAILED_CHECKS: Final = 3
HEARTBEAT_SECONDS = 10.0
# If a client does not read for this time, the stream ends.
SEND_SECONDS = 30.0
_RETRY_SECONDS: Final = 10
_TEMPORARY_STATUSES: Final = (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE)
_HEADERS: Final = {
    "Cache-Control": "no-store",
    # Otherwise nginx would collect events before it forwards the events.
    "X-Accel-Buffering": "no",
}


class TooManyEventStreams(AdmitError):
    """You have too many event streams."""

    status = 429
    retry_after_seconds = _RETRY_SECONDS


class EventStreamsInUse(AdmitError):
    """Too many event streams are open."""

    status = 503
    retry_after_seconds = _RETRY_SECONDS


class EventStreamLimit:
    """Counts the event streams of this process. Only for the event loop's thread."""

    def __init__(self) -> None:
        self._by_caller: Counter[object] = Counter()
        self._tenants = 0

    @contextmanager
    def hold(self, caller: object, tenants: int) -> Iterator[None]:
        """Count a stream with this number of tenants. Raises TooManyEventStreams and EventStreamsInUse."""
        if self._by_caller[caller] >= MAX_CALLER_STREAMS:
            raise TooManyEventStreams(
                f"The limit is {MAX_CALLER_STREAMS} event streams of one person or token.",
                remedy="Close another event stream.",
            )
        if self._by_caller.total() >= MAX_STREAMS or self._tenants + tenants > MAX_STREAM_TENANTS:
            raise EventStreamsInUse(remedy="Try again later.")
        self._by_caller[caller] += 1
        self._tenants += tenants
        try:
            yield
        finally:
            self._tenants -= tenants
            self._by_caller[caller] -= 1
            # Without entries of callers that have no stream.
            self._by_caller += Counter()


def prepare_event_streams(app: FastAPI) -> None:
    app.state.event_streams = EventStreamLimit()


class EventSampler:
    """Limits the events of a stream in each second, and counts omitted events."""

    def __init__(self, most_per_second: int, now: float) -> None:
        self._most = most_per_second
        self._began = now
        # Whether the previous second had too many events.
        self._is_busy = False
        self._shown = self._omitted = 0

    def admit(self) -> bool:
        """Return whether the stream sends the next event.

        While too many events arrive, the sent events are spread over the second.
        """
        share = min(1.0, 0.1 + time.monotonic() - self._began) if self._is_busy else 1.0
        is_admitted = self._shown < self._most * share
        self._shown += is_admitted
        self._omitted += not is_admitted
        return is_admitted

    def end_second(self, now: float) -> tuple[int, int] | None:
        """If a second is over and events were omitted, return the numbers of sent and omitted events."""
        if now - self._began < 1:
            return None
        counts = self._shown, self._omitted
        self._began, self._is_busy, self._shown, self._omitted = now, self._omitted > 0, 0, 0
        return counts if counts[1] else None


class EventStream(Response):
    """Response with live events until the client disconnects, the caller loses access, or MAX_SECONDS are over."""

    media_type = "text/event-stream"

    def __init__(
        self,
        caller: Caller,
        *,
        tenants: Slugs,
        check: Callable[[Caller], Slugs],
        wanted: EventFilter,
        after: str,
        most_per_second: int,
    ) -> None:
        """`check` returns the current tenants of the stream, or raises an error if the caller lost access."""
        super().__init__(headers=_HEADERS)
        # The length is unknown.
        del self.headers["content-length"]
        self._request = caller.request
        principal = caller.principal
        self._key = caller.signed_in.person_id if caller.signed_in else principal.token_id or principal.actor
        self._slugs = tenants
        self._check = check
        now = time.monotonic()
        self._sampler = EventSampler(most_per_second, now)
        self._state = ListenerState(tenants, wanted, now, after=after, admits=self._sampler.admit)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Raises TooManyEventStreams and EventStreamsInUse."""
        limit: EventStreamLimit = scope["app"].state.event_streams
        with limit.hold(self._key, len(self._slugs)):
            mark_endless(scope)
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            parts = (self._send_events(send), self._check_access(), _await_disconnect(receive))
            tasks = [create_task(part) for part in parts]
            try:
                done, _ = await wait(tasks, timeout=MAX_SECONDS, return_when="FIRST_COMPLETED")
                for task in done:
                    task.result()
            finally:
                await _cancel(tasks)
            with suppress(TimeoutError):
                async with timeout(1):
                    await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _send_events(self, send: Send) -> None:
        """Send events until the client does not read for SEND_SECONDS."""
        url = get_settings(self._request).redis_url
        frames: list[bytes] = []
        sent_at, sent_position = time.monotonic(), ""
        async with aclosing(listen_async(url, self._state)) as items:
            async for item in items:
                if item is not None:
                    frames.append(self._build_frame(item))
                    continue
                now = time.monotonic()
                if counts := self._sampler.end_second(now):
                    frames.append(self._build_notice("sampled", shown=counts[0], count=counts[1]))
                position = self._state.resume_position
                if frames or now - sent_at >= HEARTBEAT_SECONDS or not sent_position:
                    # A message of only a comment and a position dispatches no event.
                    frames.append(_build_message(b": position", position))
                    try:
                        async with timeout(SEND_SECONDS):
                            await send({"type": "http.response.body", "body": b"".join(frames), "more_body": True})
                    except TimeoutError:
                        return
                    frames.clear()
                    sent_at, sent_position = now, position

    async def _check_access(self) -> None:
        """Check the caller at intervals, and return when the caller has lost access."""
        failures = 0
        shown = await bearer(self._request)
        while failures <= _MAX_FAILED_CHECKS:
            # Streams that began at the same time check at different times.
            await sleep(CHECK_SECONDS * random.uniform(0.8, 1))  # noqa: S311 -- no secret
            try:
                self._slugs = await run_in_thread(
                    lambda: self._check(authenticate_caller(self._request, Response(), shown)), self._request
                )
                self._state.set_tenants(self._slugs, time.monotonic())
                failures = 0
            except AdmitError as exc:
                if exc.status not in _TEMPORARY_STATUSES:
                    return
                failures += 1

    def _build_frame(self, item: LiveEvent | StreamNotice) -> bytes:
        if isinstance(item, StreamNotice):
            slug = self._slugs.get(item.tenant_id) if item.tenant_id is not None else None
            return self._build_notice(item.kind, tenant=slug, count=item.count)
        line, event = item.line, item.event
        if event.organization is None:
            tenant = Organization(id=str(item.tenant_id), name=self._slugs.get(item.tenant_id, ""))
            line = to_json(msgspec.structs.replace(event, organization=tenant))
        kind = event.admit.__struct_config__.tag
        return _build_message(f"event: {kind}".encode(), self._state.resume_position, line)

    def _build_notice(self, kind: str, **members: Any) -> bytes:  # noqa: ANN401 -- JSON values
        found = {"notice": kind, **members}
        line = json.dumps({name: value for name, value in found.items() if value is not None})
        return _build_message(b"event: notice", self._state.resume_position, line.encode())


def _build_message(head: bytes, position: str, line: bytes = b"") -> bytes:
    lines = [head]
    if position:
        lines.append(b"id: " + position.encode())
    if line:
        # A line break would end the data.
        lines.append(b"data: " + line.translate(None, b"\r\n"))
    return b"\n".join((*lines, b"", b""))


async def _cancel(tasks: Collection[Task[None]]) -> None:
    pending = set(tasks)
    while pending:
        for task in pending:
            task.cancel()
        # With Python before 3.11.3, redis-py can lose a cancellation.
        _, pending = await wait(pending, timeout=0.1)
    await gather(*tasks, return_exceptions=True)


async def _await_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
