"""Cache of recent correct and wrong passwords. The cache is only in memory, and stores keyed digests.

An entry is valid for its origin: the password hash of the tenant's own user, or the version of an identity source. So a
change of the hash or version in the replica invalidates the entry immediately.
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
    # Password hash or source version when the entry was stored.
    origin: str
    answer: VerificationResult
    until: float


class PasswordCache:
    """Cache of one kind of result: of correct passwords, or of wrong passwords. Not thread-safe."""

    def __init__(self, *, most: int = MAX_ENTRIES, clock: Callable[[], float] = time.monotonic) -> None:
        # Random key of this process, so no stored file can reveal it. The memory of the process contains the passwords
        # anyway.
        self._key: Final = secrets.token_bytes(32)
        self._most = most
        self._clock = clock
        self._entries: OrderedDict[tuple[int, str], _CachedResult] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def find(self, tenant: int, name: str, password: bytes, origin: str) -> VerificationResult | None:
        """Cached result for this password; None if the cache has no current result from `origin`."""
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
