"""How much one credential, its owner or an address may ask of the API.

Buckets are of this process, so that they need neither Redis nor a lock: of several processes each allows as much.
Headers as draft-ietf-httpapi-ratelimit-headers-10.
"""

import math
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from threading import Lock

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.errors import build_problem
from nac.errors import AdmitError
from nac.request_sources import get_source

_MAX_ENTRIES = 10_000
_MINUTE_SECONDS = 60
# Probes of the supervisor and of load balancers.
_UNLIMITED_PATHS = {"/healthz", "/readyz"}
# With the prefix of RFC 6265bis, or without.
_SIGN_IN_COOKIES = (b"admit", b"__Host-admit")
_UNAUTHORIZED = 401


class RateBuckets:
    """So many at once, and as many in each minute; of very many keys those are forgotten that were silent longest."""

    def __init__(self, per_minute: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.per_minute = per_minute
        self._rate = per_minute / _MINUTE_SECONDS
        self._clock = clock
        # What was left, and when.
        self._buckets: OrderedDict[object, tuple[float, float]] = OrderedDict()
        # Owners are known where credentials are looked at: in threads.
        self._lock = Lock()

    def left(self, key: object) -> float:
        left, at = self._buckets.get(key, (float(self.per_minute), 0.0))
        return min(float(self.per_minute), left + (self._clock() - at) * self._rate)

    def take(self, key: object) -> float:
        """What is left now; less than 0 where there was none to take, which is not counted."""
        with self._lock:
            left = self.left(key) - 1
            self._buckets[key] = (left if left >= 0 else left + 1, self._clock())
            self._buckets.move_to_end(key)
            if len(self._buckets) > _MAX_ENTRIES:
                self._buckets.popitem(last=False)
            return left

    def wait(self, left: float) -> int:
        """Seconds until one can be taken, where so many are left after taking."""
        return math.ceil(-left / self._rate) if left < 0 else 0

    def refill(self, left: float) -> int:
        """Seconds until all are there again."""
        return math.ceil((self.per_minute - max(0.0, left)) / self._rate)


class TooManyRequests(AdmitError):
    """Too much is asked."""

    status = 429

    def __init__(self, detail: str, *, seconds: int) -> None:
        super().__init__(detail, remedy=f"Ask again in {seconds} s.")
        self.retry_after_seconds = seconds


@dataclass(frozen=True, slots=True)
class BucketKey:
    """One, as headers name its kind."""

    name: str
    of: RateBuckets
    key: object


@dataclass(frozen=True, slots=True)
class KnownCredential:
    """A credential that was looked at, and whose it is: one owner may have very many."""

    public_id: str
    # A tenant, an MSP or the platform; of a sign-in the person.
    owner: object


class RequestCredential:
    """What a request shows of who asks, and what it has taken from which bucket."""

    def __init__(self, credential: int | None, owners: RateBuckets | None) -> None:
        self.credential = credential
        # Once it was looked at and is good.
        self.good: KnownCredential | None = None
        # What it was the last time, whose buckets this request was taken from.
        self.known: KnownCredential | None = None
        self.taken: list[tuple[BucketKey, float]] = []
        self._owners = owners

    def take(self, *buckets: BucketKey) -> BucketKey | None:
        """From each of them, or from none: then the one that is empty."""
        empty = [bucket for bucket in buckets if bucket.of.left(bucket.key) < 1]
        if empty:
            return max(empty, key=lambda bucket: bucket.of.wait(bucket.of.left(bucket.key) - 1))
        self.taken += [(bucket, bucket.of.take(bucket.key)) for bucket in buckets]
        return None

    def note(self, good: KnownCredential) -> None:
        """Raises TooManyRequests: what was shown in a way that was not known has not been counted for its owner yet."""
        is_counted = any(each is not None and each.owner == good.owner for each in (self.known, self.good))
        self.good = good
        if self._owners is None or is_counted:
            return
        left = self._owners.take(good.owner)
        self.taken.append((BucketKey("owner", self._owners, good.owner), left))
        if left < 0:
            raise TooManyRequests(_describe_limit(self._owners, "owner"), seconds=self._owners.wait(left))

    def headers(self) -> list[tuple[bytes, bytes]]:
        """Of the bucket of which least is left (draft-ietf-httpapi-ratelimit-headers-10)."""
        if not self.taken:
            return []
        bucket, left = min(self.taken, key=lambda each: each[1])
        return _build_headers(bucket.of, bucket.name, left)


def record_credential(scope: Scope, public_id: str, owner: object) -> None:
    """That what the request of this scope shows is a credential, which, and whose: one may be written in many ways.

    Raises TooManyRequests.
    """
    shown: RequestCredential | None = scope.get("admit.shown")
    if shown is not None:
        shown.note(KnownCredential(public_id, owner))


def get_known_owner(scope: Scope) -> object | None:
    """Whose credential is shown; None where it was not good before."""
    shown: RequestCredential | None = scope.get("admit.shown")
    return None if shown is None or shown.known is None else shown.known.owner


def has_known_credential(scope: Scope) -> bool:
    """Whether the credential was good the last time that it was shown."""
    return get_known_owner(scope) is not None


class CredentialRateLimit:
    """429 for who asks too much, or whose address shows too many credentials that are not good; 0 for no limit.

    A credential has a bucket of its own once it was good, and its owner one for all that are his; all else counts for
    the address that it comes from. Failures stop those alone that fail: who else is behind the same address is heard.
    """

    def __init__(
        self, app: ASGIApp, *, requests_per_minute: int, owner_requests_per_minute: int, failures_per_minute: int
    ) -> None:
        self._app = app
        # Apart, so that none crowds the others out.
        self._by_source = RateBuckets(requests_per_minute) if requests_per_minute else None
        self._by_credential = RateBuckets(requests_per_minute) if requests_per_minute else None
        self._by_owner = RateBuckets(owner_requests_per_minute) if owner_requests_per_minute else None
        self._failures = RateBuckets(failures_per_minute) if failures_per_minute else None
        self._good: OrderedDict[int, KnownCredential] = OrderedDict()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in _UNLIMITED_PATHS:
            await self._app(scope, receive, send)
            return
        client = scope.get("client")
        source = get_source(client[0] if client else "")
        shown = scope["admit.shown"] = RequestCredential(hash_credential(scope["headers"]), self._by_owner)
        empty = shown.take(*self._buckets_of(shown, source))
        if empty is not None:
            await self._refuse(empty.of, empty.name, empty.of.left(empty.key) - 1)(scope, receive, send)
            return
        failed: float | None = None

        async def telling(message: Message) -> None:
            nonlocal failed
            if message["type"] == "http.response.start":
                failed = self._note(source, shown, message["status"])
                message["headers"] = [*message.get("headers", ()), *shown.headers()]
            if failed is None:
                await send(message)

        await self._app(scope, receive, telling)
        if failed is not None:
            assert self._failures is not None
            await self._refuse(self._failures, "failures", failed)(scope, receive, send)

    def _buckets_of(self, shown: RequestCredential, source: str) -> list[BucketKey]:
        known = None if shown.credential is None else self._good.get(shown.credential)
        if known is None:
            return [BucketKey("source", self._by_source, source)] if self._by_source is not None else []
        shown.known = known
        found = [("credential", self._by_credential, known.public_id), ("owner", self._by_owner, known.owner)]
        return [BucketKey(name, of, key) for name, of, key in found if of is not None]

    def _note(self, source: str, shown: RequestCredential, status: int) -> float | None:
        """Less than 0 where it is one failure too many."""
        credential = shown.credential
        if credential is None:
            return None
        if shown.good is not None:
            self._good[credential] = shown.good
            self._good.move_to_end(credential)
            if len(self._good) > _MAX_ENTRIES:
                self._good.popitem(last=False)
        elif status == _UNAUTHORIZED:
            self._good.pop(credential, None)
            left = self._failures.take(source) if self._failures is not None else 0.0
            return left if left < 0 else None
        return None

    @staticmethod
    def _refuse(buckets: RateBuckets, name: str, left: float) -> ASGIApp:
        seconds = buckets.wait(left)
        headers = {header.decode(): value.decode() for header, value in _build_headers(buckets, name, 0)}
        return build_problem(
            status=429,
            code="too-many-requests",
            title="Too much is asked.",
            detail=_describe_limit(buckets, name),
            remedy=f"Ask again in {seconds} s.",
            headers=headers | {"Retry-After": str(seconds), "Cache-Control": "no-store"},
        )


def hash_credential(headers: Sequence[tuple[bytes, bytes]]) -> int | None:
    """Stands for the token or sign-in that is shown, without being it; None where none is shown. It is what is looked
    at (api.access): what a proxy asks for itself is none, nor is a cookie beside a token."""
    authorization = next((value for name, value in headers if name == b"authorization"), b"")
    scheme, _, shown = authorization.decode("latin-1").partition(" ")
    if scheme.lower() == "bearer" and shown.strip():
        return hash(authorization)
    cookies = (value for name, value in headers if name == b"cookie")
    parts = (part.strip() for value in cookies for part in value.split(b";"))
    ours = tuple(part for part in parts if part.partition(b"=")[0] in _SIGN_IN_COOKIES)
    return hash(ours) if ours else None


def _describe_limit(buckets: RateBuckets, name: str) -> str:
    what = {
        "failures": "credentials that are not valid",
        "owner": "requests of all credentials of one owner together",
    }.get(name, "requests")
    return f"At most {buckets.per_minute} {what} are taken in a minute."


def _build_headers(buckets: RateBuckets, name: str, left: float) -> list[tuple[bytes, bytes]]:
    policy = f'"{name}";q={buckets.per_minute};w={_MINUTE_SECONDS}'
    limit = f'"{name}";r={max(0, math.floor(left))};t={buckets.refill(left)}'
    return [(b"ratelimit-policy", policy.encode()), (b"ratelimit", limit.encode())]
