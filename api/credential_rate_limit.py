"""Rate limits of the API for a credential, for the owner of credentials, and for an address.

Each process has separate buckets and limits, so no Redis is needed. The headers of responses follow
draft-ietf-httpapi-ratelimit-headers-10.
"""

import math
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from threading import Lock

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.errors import build_problem
from nac.kit.errors import AdmitError
from nac.kit.request_sources import get_source

_MAX_ENTRIES = 10_000
_MINUTE_SECONDS = 60
# Probes of supervisors and load balancers.
_UNLIMITED_PATHS = {"/healthz", "/readyz"}
# With and without the prefix of RFC 6265bis.
_SIGN_IN_COOKIES = (b"admit", b"__Host-admit")
_UNAUTHORIZED = 401


class RateBuckets:
    """Token buckets by key. A bucket gets `per_minute` tokens in a minute.

    A client can use all tokens of a full bucket together. With more than _MAX_ENTRIES keys, the least recently used key
    is dropped.
    """

    def __init__(self, per_minute: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.per_minute = per_minute
        self._rate = per_minute / _MINUTE_SECONDS
        self._clock = clock
        # By key: number of remaining tokens, and the time at which this number was computed.
        self._buckets: OrderedDict[object, tuple[float, float]] = OrderedDict()
        # Several threads check credentials at the same time.
        self._lock = Lock()

    def left(self, key: object) -> float:
        left, at = self._buckets.get(key, (float(self.per_minute), 0.0))
        return min(float(self.per_minute), left + (self._clock() - at) * self._rate)

    def take(self, key: object) -> float:
        """Take a token. Returns the number of remaining tokens; below 0 if the bucket was empty."""
        with self._lock:
            left = self.left(key) - 1
            self._buckets[key] = (left if left >= 0 else left + 1, self._clock())
            self._buckets.move_to_end(key)
            if len(self._buckets) > _MAX_ENTRIES:
                self._buckets.popitem(last=False)
            return left

    def wait(self, left: float) -> int:
        """Return the seconds until a token is available; `left` is a result of `take`."""
        return math.ceil(-left / self._rate) if left < 0 else 0

    def refill(self, left: float) -> int:
        """Return the seconds until the bucket is full again."""
        return math.ceil((self.per_minute - max(0.0, left)) / self._rate)


class TooManyRequests(AdmitError):
    """Too many requests."""

    status = 429

    def __init__(self, detail: str, *, seconds: int) -> None:
        super().__init__(detail, remedy=f"Try again in {seconds} s.")
        self.retry_after_seconds = seconds


@dataclass(frozen=True, slots=True)
class BucketKey:
    name: str
    of: RateBuckets
    key: object


@dataclass(frozen=True, slots=True)
class KnownCredential:
    """A valid credential and the owner of the credential. An owner can have several credentials."""

    public_id: str
    # Tenant, MSP or platform of a token; the person of a sign-in.
    owner: object


class RequestCredential:
    """Credential of a request, and the tokens that the request took from buckets."""

    def __init__(self, credential: int | None, owners: RateBuckets | None) -> None:
        self.credential = credential
        # The valid credential, as soon as this request has checked the credential.
        self.good: KnownCredential | None = None
        # The valid credential according to an earlier request. The buckets of this credential count the request.
        self.known: KnownCredential | None = None
        self.taken: list[tuple[BucketKey, float]] = []
        self._owners = owners

    def take(self, *buckets: BucketKey) -> BucketKey | None:
        """Take a token from each bucket. If a bucket is empty, take no token and return the empty bucket."""
        empty = [bucket for bucket in buckets if bucket.of.left(bucket.key) < 1]
        if empty:
            return max(empty, key=lambda bucket: bucket.of.wait(bucket.of.left(bucket.key) - 1))
        self.taken += [(bucket, bucket.of.take(bucket.key)) for bucket in buckets]
        return None

    def note(self, good: KnownCredential) -> None:
        """Record a valid credential, and count the request for the credential's owner if the credential is new.

        Raises TooManyRequests.
        """
        is_counted = any(each is not None and each.owner == good.owner for each in (self.known, self.good))
        self.good = good
        if self._owners is None or is_counted:
            return
        left = self._owners.take(good.owner)
        self.taken.append((BucketKey("owner", self._owners, good.owner), left))
        if left < 0:
            raise TooManyRequests(_describe_limit(self._owners, "owner"), seconds=self._owners.wait(left))

    def headers(self) -> list[tuple[bytes, bytes]]:
        """Rate limit headers of the bucket with the fewest tokens (draft-ietf-httpapi-ratelimit-headers-10)."""
        if not self.taken:
            return []
        bucket, left = min(self.taken, key=lambda each: each[1])
        return _build_headers(bucket.of, bucket.name, left)


def record_credential(scope: Scope, public_id: str, owner: object) -> None:
    """Record that the request's credential is valid, with its public id and owner. Raises TooManyRequests."""
    shown: RequestCredential | None = scope.get("admit.shown")
    if shown is not None:
        shown.note(KnownCredential(public_id, owner))


def get_known_owner(scope: Scope) -> object | None:
    """Owner of the request's credential; None if no earlier request with this credential succeeded."""
    shown: RequestCredential | None = scope.get("admit.shown")
    return None if shown is None or shown.known is None else shown.known.owner


def has_known_credential(scope: Scope) -> bool:
    """Whether the credential was valid at the last check."""
    return get_known_owner(scope) is not None


class CredentialRateLimit:
    """Middleware that rejects requests over a limit with 429; 0 means no limit.

    Each valid credential has a bucket. The owner also has one bucket for all credentials of the owner. A request
    without a valid credential counts for the client address. Invalid credentials count separately, so that invalid
    credentials do not block valid credentials from the same address.
    """

    def __init__(
        self, app: ASGIApp, *, requests_per_minute: int, owner_requests_per_minute: int, failures_per_minute: int
    ) -> None:
        self._app = app
        # Valid and invalid credentials are stored separately, so that neither kind evicts the other.
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
        """Record whether the credential was valid.

        Returns a value below 0 if the address sent too many invalid credentials.
        """
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
            title="Too many requests.",
            detail=_describe_limit(buckets, name),
            remedy=f"Try again in {seconds} s.",
            headers=headers | {"Retry-After": str(seconds), "Cache-Control": "no-store"},
        )


def hash_credential(headers: Sequence[tuple[bytes, bytes]]) -> int | None:
    """Return the hash of the request's token or sign-in cookie; None without token and cookie.

    Like api.caller, this function reads only the Authorization scheme Bearer. A token takes precedence over a cookie.
    """
    authorization = next((value for name, value in headers if name == b"authorization"), b"")
    scheme, _, shown = authorization.decode("latin-1").partition(" ")
    if scheme.lower() == "bearer" and shown.strip():
        # Clients can write the scheme in upper or lower case, but a token must always have the same hash.
        return hash(("bearer", shown.strip()))
    cookies = (value for name, value in headers if name == b"cookie")
    parts = (part.strip() for value in cookies for part in value.split(b";"))
    ours = tuple(part for part in parts if part.partition(b"=")[0] in _SIGN_IN_COOKIES)
    return hash(ours) if ours else None


def _describe_limit(buckets: RateBuckets, name: str) -> str:
    what = {
        "failures": "invalid credentials",
        "owner": "requests of all credentials of one owner",
    }.get(name, "requests")
    return f"The limit is {buckets.per_minute} {what} in a minute."


def _build_headers(buckets: RateBuckets, name: str, left: float) -> list[tuple[bytes, bytes]]:
    policy = f'"{name}";q={buckets.per_minute};w={_MINUTE_SECONDS}'
    limit = f'"{name}";r={max(0, math.floor(left))};t={buckets.refill(left)}'
    return [(b"ratelimit-policy", policy.encode()), (b"ratelimit", limit.encode())]
