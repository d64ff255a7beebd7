"""Verifies names and passwords: the tenant's own users by their argon2id hash, all other users by the tenant's identity
sources.

Reads the cell's replica for each login, so the verifier works without PostgreSQL.

`PasswordCache` caches recent correct or wrong passwords. The cache is only in memory, and stores keyed digests.

An entry is valid for its origin: the password hash of the tenant's own user, or the version of an identity source. So a
change of the hash or version in the replica invalidates the entry immediately.
"""

import asyncio
import hmac
import logging
import os
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, NamedTuple

from nac.cellformat.identity_names import UserName, name_for_realms, strip_realm
from nac.cellformat.replica.records import ARGON2ID, IdentitySourceRecord, SlotRecord, UserRecord
from nac.cellformat.replica.store import ReplicaReader
from nac.inventory.identity_sources.settings import MAX_LOGIN_SECONDS
from nac.inventory.identity_sources.verifier_messages import VerificationResult
from nac.kit.passwords import verify_password
from radius.verifier.gate import Gate, GateFull
from radius.verifier.sources import LiveSource, LiveSources

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


log = logging.getLogger(__name__)

# Time in which the verifier accepts the correct password of a tenant's own user without hashing the password again.
OWN_CACHE_SECONDS = 300.0
# Time in which the verifier rejects a repeated wrong password without hashing the password again.
OWN_REJECT_CACHE_SECONDS = 10.0
# Limit of running and waiting hash computations of one tenant. All tenants share the cores.
OWN_WAITING = 64


class Verifier:
    def __init__(self, replica: ReplicaReader, sources: LiveSources) -> None:
        self._replica = replica
        self._sources = sources
        cores = os.cpu_count() or 1
        self._hashing = ThreadPoolExecutor(cores, thread_name_prefix="argon2id")
        # Hash computations start in order of arrival. If the machine has several cores, one tenant uses at most one.
        self._cores = asyncio.Semaphore(cores)
        self._gates: dict[int, Gate] = {}
        self._held = PasswordCache()
        self._refused = PasswordCache()

    async def verify(self, slot: int, raw_name: bytes, password: bytes) -> VerificationResult:
        try:
            async with asyncio.timeout(MAX_LOGIN_SECONDS):
                return await self._verify(slot, raw_name, password)
        except TimeoutError:
            return VerificationResult("verifier-busy", f"no result within {MAX_LOGIN_SECONDS:g} s")

    async def tidy(self) -> None:
        with self._replica.begin() as view:
            await self._sources.tidy(view)

    async def _verify(self, slot_number: int, raw_name: bytes, password: bytes) -> VerificationResult:
        try:
            name = raw_name.decode()
        except UnicodeDecodeError:
            return VerificationResult("unknown-user")
        with self._replica.begin() as view:
            slot = view.slot(slot_number)
            if slot is None:
                return VerificationResult("not-ready")
            user = view.user(slot.tenant, strip_realm(name, slot.realms))
            sources = [] if user is not None else view.identity_sources(slot.tenant)
        if user is not None:
            return await self._verify_own_user(slot.tenant, user, password)
        return await self._ask_sources(slot, name, sources, password)

    async def _verify_own_user(self, tenant: int, user: UserRecord, password: bytes) -> VerificationResult:
        if not user.password_hash.startswith(ARGON2ID):
            return VerificationResult("internal-error", "the verifier does not handle this password")
        known = self._find_cached(tenant, user.name, password, user.password_hash)
        if known is not None:
            return known
        try:
            async with self._gate(tenant).enter():
                loop = asyncio.get_running_loop()
                right = await loop.run_in_executor(self._hashing, verify_password, password, user.password_hash)
        except GateFull:
            return VerificationResult("verifier-busy", "too many logins of this tenant at once")
        answer = VerificationResult() if right else VerificationResult("wrong-password")
        cache, seconds = (self._held, OWN_CACHE_SECONDS) if right else (self._refused, OWN_REJECT_CACHE_SECONDS)
        cache.keep(tenant, user.name, password, user.password_hash, answer, seconds=seconds)
        return answer

    async def _ask_sources(
        self, slot: SlotRecord, name: str, records: list[IdentitySourceRecord], password: bytes
    ) -> VerificationResult:
        """Query the sources in order. The first source that knows the user decides.

        A failing source ends the search, because a later source may know another user of the same name.
        """
        if not name.isprintable():
            return VerificationResult("unknown-user")
        answer = VerificationResult(
            "unknown-user", "no identity source handles the realm of this name" if records else ""
        )
        for record in records:
            source = await self._sources.live(slot.tenant, slot.slug, record)
            if isinstance(source, VerificationResult):
                return source
            addressed = name_for_realms(name, source.settings.realms, slot.realms)
            if addressed is None:
                continue
            answer = await self._ask_source(slot.tenant, source, addressed, password)
            if answer.reason != "unknown-user":
                break
        return answer

    async def _ask_source(self, tenant: int, source: LiveSource, name: UserName, password: bytes) -> VerificationResult:
        key = f"{source.record.source_id} {name.name.casefold()}"
        known = self._find_cached(tenant, key, password, source.origin)
        if known is not None:
            return known
        answer = await source.ask(name, password)
        if answer.verified:
            self._held.keep(tenant, key, password, source.origin, answer, seconds=source.settings.cache_seconds)
        elif source.is_inconclusive(answer):
            # The source failed, so there is no result about the user.
            return answer
        else:
            self._refused.keep(tenant, key, password, source.origin, answer, seconds=source.settings.refused_seconds)
        return answer

    def _find_cached(self, tenant: int, name: str, password: bytes, origin: str) -> VerificationResult | None:
        return self._held.find(tenant, name, password, origin) or self._refused.find(tenant, name, password, origin)

    def _gate(self, tenant: int) -> Gate:
        gate = self._gates.get(tenant)
        if gate is None:
            inside = max(1, (os.cpu_count() or 1) - 1)
            gate = self._gates[tenant] = Gate(inside=inside, waiting=OWN_WAITING, shared=self._cores)
        return gate
