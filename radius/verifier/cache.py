"""Passwords that held, or did not, a short while ago: kept as keyed digests, in memory alone.

An entry counts while what it was found out from stands: the password hash of an own user, the version of a source. So a
change makes it void the moment the replica holds the change; nothing has to be told.
"""

import hmac
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final, NamedTuple

from nac.identities.verifier_messages import VerificationResult

MOST_ENTRIES = 50_000


class _Entry(NamedTuple):
    digest: bytes
    # What it was found out from.
    origin: str
    answer: VerificationResult
    until: float


class PasswordCache:
    """Of one kind of outcome. Not for several threads."""

    def __init__(self, *, most: int = MOST_ENTRIES, clock: Callable[[], float] = time.monotonic) -> None:
        # Of this process: a dump of its memory tells what it could verify anyway, and no file tells anything.
        self._key: Final = secrets.token_bytes(32)
        self._most = most
        self._clock = clock
        self._entries: OrderedDict[tuple[int, str], _Entry] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def find(self, tenant: int, name: str, password: bytes, origin: str) -> VerificationResult | None:
        """What was found out about this very password, where that was from `origin` and is not too long ago."""
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
        self._entries[key] = _Entry(self._digest(tenant, name, password), origin, answer, self._clock() + seconds)
        self._entries.move_to_end(key)
        if len(self._entries) > self._most:
            self._entries.popitem(last=False)

    def _digest(self, tenant: int, name: str, password: bytes) -> bytes:
        return hmac.digest(self._key, b"\0".join((str(tenant).encode(), name.encode(), password)), "sha256")
