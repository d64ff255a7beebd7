"""Rate limit for each source, which is a client address or network."""

import math
import time
from collections import OrderedDict
from collections.abc import Callable

from starlette.types import ASGIApp, Receive, Scope, Send

from api.concurrency_limit import ConcurrencyLimit
from api.errors import build_problem
from nac.kit.request_sources import get_source

# A full bucket has the tokens for this number of seconds.
_BURST_SECONDS = 2
_MAX_SOURCES = 10_000
# Retry-After if too many requests of the source are running.
_BUSY_RETRY_SECONDS = 1.0
# Probes of supervisors and load balancers.
_UNLIMITED_PATHS = {"/healthz", "/readyz"}


class SourceTokenBuckets:
    """Token bucket for each source.

    With more than `most` sources, the bucket of the least recently active source is dropped. Not thread-safe.
    """

    def __init__(
        self, per_second: float, *, most: int = _MAX_SOURCES, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._per_second = per_second
        self._burst = max(1.0, per_second * _BURST_SECONDS)
        self._most = most
        self._clock = clock
        # By source: number of remaining tokens, and the time at which this number was computed.
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, source: str) -> float:
        """Take a token from the source's bucket. Returns 0.0, or the seconds until a token is available."""
        now = self._clock()
        left, at = self._buckets.get(source, (self._burst, now))
        left = min(self._burst, left + (now - at) * self._per_second)
        wait = 0.0 if left >= 1 else (1 - left) / self._per_second
        self._buckets[source] = (left if wait else left - 1, now)
        self._buckets.move_to_end(source)
        if len(self._buckets) > self._most:
            self._buckets.popitem(last=False)
        return wait


class SourceRateLimit:
    """Middleware that limits the requests of each source, and rejects requests over a limit with 429.

    `per_second` limits the rate of requests, and `at_once` the number of running requests; 0 means no limit.
    """

    def __init__(self, app: ASGIApp, per_second: int, at_once: int) -> None:
        self._app = app
        self._buckets = SourceTokenBuckets(per_second) if per_second else None
        # Counts requests, not connections, because sources can share the connections of a proxy.
        self._places = ConcurrencyLimit(at_once, what="requests")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in _UNLIMITED_PATHS:
            await self._app(scope, receive, send)
            return
        client = scope.get("client")
        address = client[0] if client else ""
        wait = self._buckets.take(get_source(address)) if self._buckets is not None else 0.0
        place = None if wait else self._places.take(address)
        if place is None:
            await self._refuse(wait or _BUSY_RETRY_SECONDS)(scope, receive, send)
            return
        try:
            await self._app(scope, receive, send)
        finally:
            place.leave()

    @staticmethod
    def _refuse(wait: float) -> ASGIApp:
        seconds = math.ceil(wait)
        return build_problem(
            status=429,
            code="too-many-requests",
            title="Too many requests from this address.",
            detail=f"Try again in {seconds} s.",
            headers={"Retry-After": str(seconds), "Cache-Control": "no-store"},
        )
