"""How much one source may ask."""

import math
import time
from collections import OrderedDict
from collections.abc import Callable

from starlette.types import ASGIApp, Receive, Scope, Send

from api.errors import problem
from nac.sources import source_of

# As many requests as come in so many seconds may come at once.
_BURST_SECONDS = 2
_SOURCES_MOST = 10_000
# Probes of the supervisor and of load balancers.
_FREE_PATHS = {"/healthz", "/readyz"}


class TokenBuckets:
    """A bucket for each source; of very many sources those are forgotten that were silent longest. For one thread."""

    def __init__(
        self, per_second: float, *, most: int = _SOURCES_MOST, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._per_second = per_second
        self._burst = max(1.0, per_second * _BURST_SECONDS)
        self._most = most
        self._clock = clock
        # Tokens that were left, and when.
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, source: str) -> float:
        """0.0 where a token was left; else the seconds until there is one."""
        now = self._clock()
        left, at = self._buckets.get(source, (self._burst, now))
        left = min(self._burst, left + (now - at) * self._per_second)
        wait = 0.0 if left >= 1 else (1 - left) / self._per_second
        self._buckets[source] = (left if wait else left - 1, now)
        self._buckets.move_to_end(source)
        if len(self._buckets) > self._most:
            self._buckets.popitem(last=False)
        return wait


class RateLimit:
    """Refuses with 429 who asks more than `per_second`; 0 for no limit."""

    def __init__(self, app: ASGIApp, per_second: int) -> None:
        self._app = app
        self._buckets = TokenBuckets(per_second) if per_second else None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._buckets is not None and scope["type"] == "http" and scope["path"] not in _FREE_PATHS:
            client = scope.get("client")
            wait = self._buckets.take(source_of(client[0]) if client else "")
            if wait:
                await self._refuse(wait)(scope, receive, send)
                return
        await self._app(scope, receive, send)

    @staticmethod
    def _refuse(wait: float) -> ASGIApp:
        seconds = math.ceil(wait)
        return problem(
            status=429,
            code="too-many-requests",
            title="Too many requests come from this address.",
            detail=f"The next one is answered in {seconds} s.",
            headers={"Retry-After": str(seconds), "Cache-Control": "no-store"},
        )
