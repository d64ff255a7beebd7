"""How much one credential or address may ask of the API.

Buckets are of this process, so that they need neither Redis nor a lock: of several processes each allows as much.
Headers as draft-ietf-httpapi-ratelimit-headers-10.
"""

import math
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.errors import problem
from nac.sources import source_of

_MOST_KEPT = 10_000
_MINUTE_SECONDS = 60
# Probes of the supervisor and of load balancers.
_FREE_PATHS = {"/healthz", "/readyz"}
# With the prefix of RFC 6265bis, or without.
_SIGN_IN_COOKIES = (b"admit", b"__Host-admit")
_REFUSED = 401


class Buckets:
    """So many at once, and as many in each minute; of very many keys those are forgotten that were silent longest."""

    def __init__(self, per_minute: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.per_minute = per_minute
        self._rate = per_minute / _MINUTE_SECONDS
        self._clock = clock
        # What was left, and when.
        self._buckets: OrderedDict[object, tuple[float, float]] = OrderedDict()

    def left(self, key: object) -> float:
        left, at = self._buckets.get(key, (float(self.per_minute), 0.0))
        return min(float(self.per_minute), left + (self._clock() - at) * self._rate)

    def take(self, key: object) -> float:
        """What is left now; less than 0 where there was none to take, which is not counted."""
        left = self.left(key) - 1
        self._buckets[key] = (left if left >= 0 else left + 1, self._clock())
        self._buckets.move_to_end(key)
        if len(self._buckets) > _MOST_KEPT:
            self._buckets.popitem(last=False)
        return left

    def wait(self, left: float) -> int:
        """Seconds until one can be taken, where so many are left after taking."""
        return math.ceil(-left / self._rate) if left < 0 else 0

    def refill(self, left: float) -> int:
        """Seconds until all are there again."""
        return math.ceil((self.per_minute - max(0.0, left)) / self._rate)


class Rates:
    """429 for who asks too much, or whose address shows too many credentials that are not good; 0 for no limit.

    A credential that was good lately is not refused for the failures of others behind the same address.
    """

    def __init__(self, app: ASGIApp, *, requests_per_minute: int, failures_per_minute: int) -> None:
        self._app = app
        self._requests = Buckets(requests_per_minute) if requests_per_minute else None
        self._failures = Buckets(failures_per_minute) if failures_per_minute else None
        self._good: OrderedDict[object, None] = OrderedDict()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in _FREE_PATHS:
            await self._app(scope, receive, send)
            return
        client = scope.get("client")
        source = source_of(client[0] if client else "")
        credential = credential_of(scope["headers"])
        if self._failures is not None and credential not in self._good:
            left = self._failures.left(source) - 1
            if left < 0 and credential is not None:
                await self._refuse(self._failures, "failures", left)(scope, receive, send)
                return
        told: list[tuple[bytes, bytes]] = []
        if self._requests is not None:
            name, key = ("source", source) if credential is None else ("credential", credential)
            left = self._requests.take(key)
            if left < 0:
                await self._refuse(self._requests, name, left)(scope, receive, send)
                return
            told = _headers(self._requests, name, left)

        async def telling(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._note(source, credential, message["status"])
                message["headers"] = [*message.get("headers", ()), *told]
            await send(message)

        await self._app(scope, receive, telling)

    def _note(self, source: str, credential: object, status: int) -> None:
        if self._failures is None or credential is None:
            return
        if status == _REFUSED:
            self._good.pop(credential, None)
            self._failures.take(source)
        elif status < _REFUSED or status in (403, 404):
            # Not of what is refused before the credential is looked at.
            self._good[credential] = None
            self._good.move_to_end(credential)
            if len(self._good) > _MOST_KEPT:
                self._good.popitem(last=False)

    @staticmethod
    def _refuse(buckets: Buckets, name: str, left: float) -> ASGIApp:
        seconds = buckets.wait(left)
        what = "credentials that are not valid" if name == "failures" else "requests"
        headers = {header.decode(): value.decode() for header, value in _headers(buckets, name, 0)}
        return problem(
            status=429,
            code="too-many-requests",
            title="Too much is asked.",
            detail=f"At most {buckets.per_minute} {what} are taken in a minute.",
            remedy=f"Ask again in {seconds} s.",
            headers=headers | {"Retry-After": str(seconds), "Cache-Control": "no-store"},
        )


def credential_of(headers: Iterable[tuple[bytes, bytes]]) -> int | None:
    """Stands for the token or sign-in that is shown, without being it; None where none is shown."""
    for name, value in headers:
        if name == b"authorization":
            return hash(value)
        if name == b"cookie":
            parts = (part.strip() for part in value.split(b";"))
            ours = tuple(part for part in parts if part.partition(b"=")[0] in _SIGN_IN_COOKIES)
            if ours:
                return hash(ours)
    return None


def _headers(buckets: Buckets, name: str, left: float) -> list[tuple[bytes, bytes]]:
    policy = f'"{name}";q={buckets.per_minute};w={_MINUTE_SECONDS}'
    limit = f'"{name}";r={max(0, math.floor(left))};t={buckets.refill(left)}'
    return [(b"ratelimit-policy", policy.encode()), (b"ratelimit", limit.encode())]
