"""Active identity sources of a cell's tenants. Each source has its own connections, breaker and limited queue."""

import asyncio
import logging
from collections.abc import Mapping
from contextlib import AsyncExitStack

import msgspec

from nac.cellformat.identity_names import UserName
from nac.cellformat.replica.records import IdentitySourceRecord
from nac.cellformat.replica.store import ReplicaView
from nac.inventory.identity_sources.settings import LdapSettings, OidcSettings
from nac.inventory.identity_sources.source_client import SourceClient
from nac.inventory.identity_sources.verification import SOURCE_FAULT_REASONS, build_source_client, verify_password
from nac.inventory.identity_sources.verifier_messages import VerificationResult
from nac.kit.outbound.reach import OutboundReach
from nac.kit.secrets import Sealer, SecretsError
from radius.verifier.agent_messages import SourceTrouble
from radius.verifier.breaker import Breaker
from radius.verifier.gate import Gate, GateFull

log = logging.getLogger(__name__)

_BUSY_REASON = "verifier-busy"


class LiveSource:
    def __init__(self, slug: str, record: IdentitySourceRecord, source: SourceClient) -> None:
        self.record = record
        self.source = source
        # Slug of the tenant, for log lines.
        self.slug = slug
        # Source id and version. This text changes when the source changes.
        self.origin = f"{record.source_id} {record.changed_at}"
        settings = source.settings
        self._gate = Gate(inside=settings.connections, waiting=settings.waiting)
        self._breaker = Breaker(failures=settings.breaker_failures, seconds=settings.breaker_seconds)
        self.last_fault = ""

    @property
    def settings(self) -> LdapSettings | OidcSettings:
        return self.source.settings

    @property
    def is_breaker_open(self) -> bool:
        return self._breaker.is_open

    async def ask(self, name: UserName, password: bytes) -> VerificationResult:
        """Verify a password. The time limit includes the wait for a free connection."""
        try:
            async with AsyncExitStack() as inside:
                async with asyncio.timeout(self.settings.time_limit_seconds):
                    await inside.enter_async_context(self._gate.enter())
                return await self._ask(name, password)
        except (GateFull, TimeoutError):
            return VerificationResult(_BUSY_REASON, f"too many logins wait for {self.record.name}", self.record.name)

    async def _ask(self, name: UserName, password: bytes) -> VerificationResult:
        breaker = self._breaker
        if not breaker.enter():
            detail = f"source paused after failures ({self.last_fault}); next try in {breaker.seconds_left():.0f} s"
            return VerificationResult("directory-unavailable", detail, self.record.name)
        try:
            answer = await verify_password(self.source, name, password, source_name=self.record.name)
        except BaseException:
            breaker.gave_up()
            raise
        if answer.reason in SOURCE_FAULT_REASONS:
            self.last_fault = f"{answer.reason}: {answer.detail}"
            breaker.failed()
            log.warning("tenant %s, source %s: %s", self.slug, self.record.name, self.last_fault)
        else:
            breaker.succeeded()
        return answer

    @staticmethod
    def is_inconclusive(answer: VerificationResult) -> bool:
        return answer.reason in SOURCE_FAULT_REASONS or answer.reason == _BUSY_REASON


class LiveSources:
    """Creates each source at its first use, and again after the source's settings change."""

    def __init__(self, sealer: Sealer, reach: OutboundReach) -> None:
        self._sealer = sealer
        self._reach = reach
        self._live: dict[tuple[int, str], LiveSource] = {}

    async def live(self, tenant: int, slug: str, record: IdentitySourceRecord) -> LiveSource | VerificationResult:
        """Return the source, ready to use. If the source's stored settings are unusable, return a reject as
        result."""
        key = (tenant, record.source_id)
        known = self._live.get(key)
        if known is not None and known.record.changed_at == record.changed_at:
            return known
        try:
            document = msgspec.json.decode(record.document, type=dict[str, object])
            context = f"identity-source:{record.source_id}"
            secret = self._sealer.open(record.sealed_secret, context) if record.sealed_secret else b""
            source = build_source_client(record.name, record.kind, document, secret, self._reach)
        except (ValueError, SecretsError) as exc:
            log.error("tenant %s, source %s cannot be used: %s", slug, record.name, exc)
            await self._let_go(key, known)
            return VerificationResult("directory-refused", f"the stored settings cannot be used: {exc}", record.name)
        # Stored before any `await`. So if several logins come at once, only the first creates the source.
        live = self._live[key] = LiveSource(slug, record, source)
        if known is not None:
            await known.source.close()
        return live

    async def _let_go(self, key: tuple[int, str], live: LiveSource | None) -> None:
        """Close a source. Another login may create the source again during the close, because the method awaits."""
        if live is not None and self._live.get(key) is live:
            del self._live[key]
            await live.source.close()

    async def tidy(self, view: ReplicaView) -> None:
        """Close sources that were removed, and sources whose settings changed since their last use."""
        standing: dict[int, dict[str, int]] = {}
        for tenant in {tenant for tenant, _ in self._live}:
            standing[tenant] = {record.source_id: record.changed_at for record in view.identity_sources(tenant)}
        for key, live in list(self._live.items()):
            if standing[key[0]].get(key[1]) != live.record.changed_at:
                await self._let_go(key, live)

    def trouble(self) -> Mapping[str, SourceTrouble]:
        """Faults of sources that get no requests now because their breaker is open, by id of the source."""
        return {
            live.record.source_id: SourceTrouble(
                tenant, f"Tenant {live.slug}: identity source {live.record.name} fails. {live.last_fault}"
            )
            for (tenant, _), live in self._live.items()
            if live.is_breaker_open
        }
