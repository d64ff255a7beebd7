"""Cache of recent correct and wrong passwords, as keyed digests in memory only.

An entry is valid for its origin: the password hash of an own user, or the version of a source. So a change in the
replica invalidates it at once.
"""

import hmac
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final, NamedTuple

from nac.inventory.identity_sources.verifier_messages import VerificationResult

MAX_ENTRIES = 50_000


class _CachedResult(NamedTuple):
    digest: bytes
    # Password hash or source version at the time.
    origin: str
    answer: VerificationResult
    until: float


class PasswordCache:
    """Cache of one kind of result. Not thread-safe."""

    def __init__(self, *, most: int = MAX_ENTRIES, clock: Callable[[], float] = time.monotonic) -> None:
        # Random for this process: no file reveals anything, and its memory has the passwords anyway.
        self._key: Final = secrets.token_bytes(32)
        self._most = most
        self._clock = clock
        self._entries: OrderedDict[tuple[int, str], _CachedResult] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def find(self, tenant: int, name: str, password: bytes, origin: str) -> VerificationResult | None:
        """The cached result for this password, if it is from `origin` and has not expired."""
        entry = self._entries.get((tenant, name))
        if entry is None or entry.until <= self._clock() or entry.origin != origin:
            return None
        return entry.answer if hmac.compare_digest(entry.digest, self._digest(tenant, name, password)) else None

    def keep(
        self, tenant: int, name: str, password: bytes, origin: str, answer: VerificationResult, *, seconds: float
    ) -> None:
        if seconds <= 0:
            return
        key = (tenant, name)
        self._entries[key] = _CachedResult(
            self._digest(tenant, name, password), origin, answer, self._clock() + seconds
        )
        self._entries.move_to_end(key)
        if len(self._entries) > self._most:
            self._entries.popitem(last=False)

    def _digest(self, tenant: int, name: str, password: bytes) -> bytes:
        return hmac.digest(self._key, b"\0".join((str(tenant).encode(), name.encode(), password)), "sha256")
