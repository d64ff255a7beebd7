"""Alarms and log lines about NASes whose requests are dropped, or whose devices open too many conversations."""

import logging
import time
from collections.abc import Callable, Set
from dataclasses import dataclass, replace
from datetime import timedelta

from sqlalchemy import Engine, and_, or_, select

from nac.kit.advice import Advice, NextStep
from nac.kit.clock import utc_now
from nac.kit.db import CellScope, session_scope
from nac.kit.ids import CellId
from nac.kit.request_sources import DEMO_ADDRESS
from nac.models import SelfTest, Slot, Tenant
from radius.agent.alarms import Alarms

log = logging.getLogger(__name__)

# Seconds that an alarm stays active after the last packet that caused it.
ALARM_SECONDS = 600.0
# Seconds between two log lines about the same address.
LOG_SECONDS = 60.0
# Limits of addresses: in the text of an alarm, and stored for each slot.
_MAX_NAMED, _MAX_KEPT = 3, 100
# Limit of addresses of all slots, while the database does not respond.
_MAX_WAITING = 1_000
# Self-tests also use wrong secrets, and radiusd may log these packets late. Packets during a self-test are ignored. A
# real NAS repeats its packets, so its alarm is raised after the self-test.
_AFTER_SELF_TESTS = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class DropCause:
    """Reason why requests are dropped or conversations are ended."""

    # Key of radius.agent.radiusd.log.SOURCE_PATTERNS.
    log_name: str
    # Beginning of the alarm's code; the tenant's slug follows.
    code: str
    # Text of the alarm, with the placeholders `named` (addresses) and `slug` (tenant).
    detail: str
    # Next steps without their parameter `tenant`, which is added later.
    steps: tuple[NextStep, ...]


WRONG_SECRET = DropCause(
    "wrong_secret",
    "wrong-secret:",
    "Packets from {named} to tenant {slug} use a wrong RADIUS secret, so Admit does not respond. Enter the "
    "tenant's secret in these devices. During a rotation, enter the next secret",
    (NextStep("revealRadiusSecret"), NextStep("revealRadiusSecret", {"next": "true"})),
)
UNSIGNED_REQUESTS = DropCause(
    "unsigned",
    "unsigned-requests:",
    "Access-Requests from {named} to tenant {slug} carry no Message-Authenticator and are not answered. Turn on "
    "Message-Authenticator in the device, or update the device. Snippets have the settings by vendor. If the device "
    "cannot send Message-Authenticator, exempt its address, or its registered NAS. An exempt device is open to "
    "forgery (BlastRADIUS). No exemption covers requests with Proxy-State: the proxy must send "
    "Message-Authenticator. Show a snippet, or exempt the device",
    (
        NextStep("getSnippet"),
        NextStep("createNas", {"address": "", "require_message_authenticator": "false"}),
        NextStep("updateNas", {"require_message_authenticator": "false"}),
    ),
)
UNFINISHED_LOGINS = DropCause(
    "conversations_full",
    "unfinished-logins:",
    "Devices behind {named} begin EAP logins at tenant {slug} and do not finish these logins. Admit ends the oldest "
    "logins (reason too-many-conversations), so that other devices can log in. Find a device behind this address that"
    " retries endlessly. "
    "Devices that left before the server certificate appear only in the log of the switch or access point. List "
    "the devices that left after the server certificate",
    (NextStep("listDecisions", {"reason": "conversation-abandoned"}),),
)


@dataclass(slots=True)
class _DroppedSource:
    heard_at: float
    logged_at: float = float("-inf")


class DroppedSources:
    def __init__(
        self,
        engine: Engine,
        cell_id: CellId,
        alarms: Alarms,
        cause: DropCause,
        take: Callable[[], Set[tuple[int, str]]],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Prepare to raise alarms for one cause of dropped packets or ended conversations (`DropCause`).

        `take` returns the slots (port pairs) and source addresses that radiusd logged since the last call of `take`.
        """
        self._engine, self._cell_id, self._alarms = engine, cell_id, alarms
        self._cause = cause
        self._take = take
        self._clock = clock
        # Addresses by slot.
        self._seen: dict[int, dict[str, _DroppedSource]] = {}
        self._heard: set[tuple[int, str]] = set()

    def report(self) -> None:
        """Raise and clear the alarms. Raises AdmitError if the database does not respond."""
        now = self._clock()
        for slot, address in self._take():
            if len(self._heard) < _MAX_WAITING and address != str(DEMO_ADDRESS):
                self._heard.add((slot, address))
        tested = self._slots_under_test() if self._heard else set()
        # Delete the collected sources only now, because the queries above can fail.
        heard, self._heard = self._heard, set()
        for slot, address in heard:
            if slot in tested:
                continue
            seen = self._seen.setdefault(slot, {})
            if address in seen:
                seen[address].heard_at = now
            elif len(seen) < _MAX_KEPT:
                seen[address] = _DroppedSource(now)
        for slot, seen in list(self._seen.items()):
            self._seen[slot] = {address: each for address, each in seen.items() if now - each.heard_at < ALARM_SECONDS}
            if not self._seen[slot]:
                del self._seen[slot]
        raised = self._raise_alarms(now) if self._seen else set()
        for alarm in self._alarms.standing():
            if alarm.code.startswith(self._cause.code) and alarm.code not in raised:
                self._alarms.clear(alarm.code)

    def _slots_under_test(self) -> set[int]:
        test = SelfTest
        now = utc_now()
        # A running test updates `due_at`. A test with an older `due_at` was interrupted.
        is_done = and_(test.state == "running", test.due_at > now - _AFTER_SELF_TESTS)
        is_near = or_(is_done, test.ended_at > now - _AFTER_SELF_TESTS)
        query = select(Slot.number).join(test, test.tenant_id == Slot.tenant_id)
        with session_scope(CellScope(self._cell_id), engine=self._engine) as session:
            return set(session.scalars(query.where(Slot.cell_id == self._cell_id, is_near)))

    def _raise_alarms(self, now: float) -> set[str]:
        query = (
            select(Slot.number, Tenant.slug, Tenant.number)
            .join(Tenant, Tenant.id == Slot.tenant_id)
            .where(Slot.cell_id == self._cell_id)
        )
        with session_scope(CellScope(self._cell_id), engine=self._engine) as session:
            tenants = {int(slot): (slug, number) for slot, slug, number in session.execute(query)}
        raised: set[str] = set()
        for slot, seen in self._seen.items():
            if slot not in tenants:
                continue
            slug, number = tenants[slot]
            code = f"{self._cause.code}{slug}"
            raised.add(code)
            named = ", ".join(sorted(seen)[:_MAX_NAMED]) + (" and others" if len(seen) > _MAX_NAMED else "")
            self._alarms.report_row(code, self._detail(named, slug), tenant=number)
            self._log(seen, slug, now)
        return raised

    def _log(self, seen: dict[str, _DroppedSource], slug: str, now: float) -> None:
        for address, source in sorted(seen.items()):
            if source.heard_at == now and now - source.logged_at >= LOG_SECONDS:
                source.logged_at = now
                log.warning("%s", self._detail(address, slug))

    def _detail(self, named: str, slug: str) -> str:
        steps = (replace(step, parameters={"tenant": slug, **step.parameters}) for step in self._cause.steps)
        return Advice(self._cause.detail.format(named=named, slug=slug), *steps)
