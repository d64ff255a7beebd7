"""Runs self-tests. Requires the database role admit_worker.

If a worker dies during a test, another worker starts the test again after LEASE.
"""

import logging
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import timedelta
from hashlib import sha256
from uuid import UUID

from sqlalchemy import Engine
from sqlalchemy.orm import Session

from nac.certificates import service as certificates
from nac.certificates.signing import SigningContext
from nac.kit.advice import Advice
from nac.kit.clock import epoch_seconds, utc_now
from nac.kit.db import PlatformScope, TenantScope, session_scope
from nac.kit.errors import AdmitError, DatabaseUnavailable, NotLiveYet
from nac.kit.ids import TenantId
from nac.models import AuthLog, Tenant
from nac.onboarding.self_tests import identities, service
from nac.onboarding.self_tests.actions import RadiusTarget
from nac.onboarding.self_tests.board import BoardRow, compare_reply
from nac.onboarding.self_tests.plan import SelfTestCheck, SelfTestPlan
from nac.tenancy.cells import service as cells
from nac.tenancy.tenants import service as tenants

_log = logging.getLogger(__name__)
ACTOR = "system:self-test"
LEASE = timedelta(minutes=2)
MAX_ATTEMPTS = 3
_NEVER_ENDS = f"The test was started {MAX_ATTEMPTS} times. Each time, the worker stopped before the test ended."
# Maximum number of self-tests per call of `run_waiting`. These self-tests run in parallel.
_MAX_PARALLEL = 4
_LIVE_SECONDS = 10.0
# Maximum time to wait until the cell's decisions are in the database.
_LOGGED_SECONDS = 15.0
_POLL_SECONDS = 0.1
_CLOCK_SLACK = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class SelfTestPlatform:
    signing: SigningContext
    # Address of cells that have no address of their own.
    radius_host: str
    reject_delay_seconds: float


def run_waiting(platform: SelfTestPlatform, *, engine: Engine | None = None) -> int:
    """Run waiting self-tests. Returns how many self-tests ran."""
    with session_scope(PlatformScope(), engine=engine) as session:
        waiting = service.list_waiting(session, most=_MAX_PARALLEL)
    with ThreadPoolExecutor(_MAX_PARALLEL) as pool:
        list(pool.map(lambda each: run_one(platform, *each, engine=engine), waiting))
    return len(waiting)


def run_one(platform: SelfTestPlatform, tenant_id: TenantId, test_id: UUID, *, engine: Engine | None = None) -> None:
    attempt = _take_attempt(tenant_id, test_id, engine)
    if attempt == 0:
        return
    if attempt > 1:
        with session_scope(TenantScope(tenant_id), engine=engine) as session:
            before = [_run_name(test_id, number) for number in range(1, attempt)]
            identities.revoke_leftovers(session, actor=ACTOR, tenant_id=tenant_id, runs=before, now=utc_now())
    if attempt > MAX_ATTEMPTS:
        _finish(tenant_id, test_id, attempt, [], _NEVER_ENDS, engine)
        return
    try:
        rows = _SelfTestRun(platform, tenant_id, _run_name(test_id, attempt), engine).run()
    except DatabaseUnavailable:
        raise
    except AdmitError as exc:
        _finish(tenant_id, test_id, attempt, [], str(exc), engine)
    except Exception:  # house-rule: a fault of one tenant must not stop the others
        _log.exception("the self-test of tenant %s failed", tenant_id)
        _finish(tenant_id, test_id, attempt, [], "The self-test failed. The worker's log has the cause.", engine)
    else:
        _finish(tenant_id, test_id, attempt, rows, "", engine)


def _run_name(test_id: UUID, attempt: int) -> str:
    """Return the name of a run in logs and certificates.

    By this name, a later worker finds and revokes the certificates.
    """
    return sha256(f"{test_id} {attempt}".encode()).hexdigest()[:8]


def _take_attempt(tenant_id: TenantId, test_id: UUID, engine: Engine | None) -> int:
    """Reserve the test for this worker, for the time LEASE. Returns the number of the attempt; 0 if not due."""
    now = utc_now()
    with session_scope(TenantScope(tenant_id), engine=engine) as session:
        row = service.get(session, tenant_id, test_id, lock=True)
        if row is None or row.state not in ("queued", "running") or row.due_at > now:
            return 0
        row.attempts += 1
        row.state, row.started_at, row.due_at = "running", row.started_at or now, now + LEASE
        return row.attempts


def _finish(
    tenant_id: TenantId, test_id: UUID, attempt: int, rows: list[BoardRow], error: str, engine: Engine | None
) -> None:
    with session_scope(TenantScope(tenant_id), engine=engine) as session:
        row = service.get(session, tenant_id, test_id, lock=True)
        # After LEASE, another worker may already run the test.
        if row is None or row.state != "running" or row.attempts != attempt:
            return
        row.state, row.ended_at, row.error = "failed" if error else "done", utc_now(), error
        row.board = [each.as_json() for each in rows]
        row.passed = bool(rows) and all(each.ok for each in rows)


class _SelfTestRun:
    def __init__(self, platform: SelfTestPlatform, tenant_id: TenantId, name: str, engine: Engine | None) -> None:
        self._platform = platform
        self._tenant_id = tenant_id
        self._engine = engine
        self._name = name
        self._began = utc_now() - _CLOCK_SLACK

    def run(self) -> list[BoardRow]:
        good = self._issue(identities.GOOD)
        try:
            revoked = self._issue(identities.REVOKED)
            self._revoke(revoked)
            with self._scope() as session:
                tenant = tenants.require_tenant(session, tenant_id=self._tenant_id)
                target = self._target(session, tenant, good)
                checks = SelfTestPlan(session, tenant, self._name, utc_now()).checks(good.identity, revoked.identity)
                xact = cells.get_current_xact(session)
            self._await_live(xact)
            return self._try(target, checks)
        finally:
            self._revoke(good)

    def _scope(self) -> AbstractContextManager[Session]:
        return session_scope(TenantScope(self._tenant_id), engine=self._engine)

    def _issue(self, kind: str) -> identities.IssuedIdentity:
        with self._scope() as session:
            return identities.issue_identity(
                session,
                actor=ACTOR,
                tenant_id=self._tenant_id,
                name=identities.certificate_name(self._name, kind),
                signing=self._platform.signing,
                now=utc_now(),
            )

    def _revoke(self, own: identities.IssuedIdentity) -> None:
        with self._scope() as session:
            certificates.revoke_certificate(
                session,
                actor=ACTOR,
                tenant_id=self._tenant_id,
                serial=own.serial,
                reason="cessationOfOperation",
                now=utc_now(),
            )

    def _await_live(self, xact: str) -> None:
        try:
            cells.wait_until_live(
                TenantScope(self._tenant_id),
                tenant_id=self._tenant_id,
                xact=xact,
                timeout_seconds=_LIVE_SECONDS,
                engine=self._engine,
            )
        except NotLiveYet as exc:
            raise NotLiveYet(
                "The tenant's cell did not receive the test certificates in time.",
                remedy=Advice("Check that the cell's agent is running.", "getPlatformStatus"),
            ) from exc

    def _target(self, session: Session, tenant: Tenant, own: identities.IssuedIdentity) -> RadiusTarget:
        slot = cells.require_slot(session, tenant_id=self._tenant_id)
        return RadiusTarget(
            host=cells.advertised_address(session, slot=slot, usual=self._platform.radius_host),
            auth_port=slot.auth_port,
            acct_port=slot.acct_port,
            secret=self._platform.signing.sealer.open(slot.secret_sealed, cells.slot_secret_context(slot)),
            tenant_key=tenant.cui_key.bytes,
            reject_delay_seconds=self._platform.reject_delay_seconds,
            root=own.root,
            server_name=own.server_name,
        )

    def _try(self, target: RadiusTarget, checks: list[SelfTestCheck]) -> list[BoardRow]:
        now_seconds = epoch_seconds()
        with ThreadPoolExecutor(len(checks)) as pool:
            seen = list(pool.map(lambda check: check.act(target, now_seconds), checks))
        logged = self._logged([check.mark for check in checks if check.is_logged])
        return [
            compare_reply(
                name=check.name,
                sent=check.sent,
                expected=check.expected.text,
                because=check.expected.because,
                reasons=check.expected.reasons,
                seen=each,
                decision=logged.get(check.mark),
                is_logged=check.is_logged,
            )
            for check, each in zip(checks, seen, strict=True)
        ]

    def _logged(self, marks: list[str]) -> dict[str, AuthLog]:
        """Return the logged decisions by the id (mark) of the check.

        Waits up to _LOGGED_SECONDS until all decisions are in the database.
        """
        deadline = time.monotonic() + _LOGGED_SECONDS
        while True:
            with self._scope() as session:
                found = service.list_decisions(session, self._tenant_id, self._name, self._began)
            if found.keys() >= set(marks) or time.monotonic() > deadline:
                return found
            time.sleep(_POLL_SECONDS)
