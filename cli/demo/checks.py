"""Checks of the demo: definition of a check, log rows of its requests, and texts for its results."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from sqlalchemy import select
from sqlalchemy.orm import Session

from cli.command_context import CommandContext
from cli.demo.responses import RadiusResponse
from cli.demo.tools import EapolResult
from nac.kit.ids import TenantId
from nac.models import AccountingLog, AuthLog, RadiusSession

# The agent copies the journal to PostgreSQL every 0.1 s.
PATIENCE_SECONDS = 8.0
_POLL_SECONDS = 0.1


@dataclass(slots=True)
class Evidence:
    """Log rows of one check, in order of time."""

    decisions: list[AuthLog] = field(default_factory=list)
    accounting: list[AccountingLog] = field(default_factory=list)
    sessions: list[RadiusSession] = field(default_factory=list)

    @property
    def count(self) -> int:
        return len(self.decisions) + len(self.accounting)


def gather_evidence(
    domain: CommandContext, slug: str, expected: Mapping[str, int], *, since: datetime, patience_seconds: float
) -> dict[str, Evidence]:
    """Return the log rows of each check.

    The keys are the marks: texts in NAS-Port-Id and Acct-Session-Id that identify the requests of a check.

    Waits at most `patience_seconds` until each check has the number of rows in `expected`.
    """
    deadline = time.monotonic() + patience_seconds
    while True:
        with domain.tenant(slug) as (session, tenant_id):
            evidence = _read(session, tenant_id, list(expected), since)
        complete = all(evidence[mark].count >= count for mark, count in expected.items())
        if complete or time.monotonic() > deadline:
            return evidence
        time.sleep(_POLL_SECONDS)


def _read(session: Session, tenant_id: TenantId, marks: Sequence[str], since: datetime) -> dict[str, Evidence]:
    evidence = {mark: Evidence() for mark in marks}
    decisions = select(AuthLog).where(AuthLog.tenant_id == tenant_id, AuthLog.at >= since, AuthLog.nas_port.in_(marks))
    for decision in session.scalars(decisions.order_by(AuthLog.at, AuthLog.id)):
        evidence[decision.nas_port].decisions.append(decision)
    accounting = select(AccountingLog).where(
        AccountingLog.tenant_id == tenant_id, AccountingLog.at >= since, AccountingLog.session_id.in_(marks)
    )
    for record in session.scalars(accounting.order_by(AccountingLog.at, AccountingLog.id)):
        evidence[record.session_id].accounting.append(record)
    stays = select(RadiusSession).where(RadiusSession.tenant_id == tenant_id, RadiusSession.session_id.in_(marks))
    for stay in session.scalars(stays):
        evidence[stay.session_id].sessions.append(stay)
    return evidence


_VERDICTS = {
    "Access-Accept": "permit",
    "Access-Reject": "reject",
    "Accounting-Response": "acknowledged",
}
SILENCE = "silence"


@dataclass(frozen=True, slots=True)
class Observation:
    """Result of a test tool, as text for the board."""

    got: str
    seconds: float


def _no_text(evidence: Evidence) -> str:
    return ""


@dataclass(frozen=True, slots=True)
class Check:
    tenant: str
    name: str
    # Description of the request.
    sent: str
    # Expected text on the board: the text that `act` returns, followed by the text that `describe` returns.
    expected: str
    # Expected reason code in auth_log; "" if Admit must log nothing.
    reason: str
    # Sends the requests of the check. The argument is the check's mark: each request contains the mark, and the demo
    # finds the log rows by the mark.
    act: Callable[[str], Observation]
    # Returns a text about the log rows of the check.
    describe: Callable[[Evidence], str] = _no_text
    # Expected number of rows in auth_log and accounting_log.
    records: int = 1
    # Seconds for which the cell intentionally waits before it writes the rows. A check with this delay does not run at
    # each start.
    recorded_after_seconds: float = 0

    @property
    def takes_long(self) -> bool:
        return self.recorded_after_seconds > 0


def describe_response(answer: RadiusResponse | None) -> str:
    """Return a text such as "permit VLAN 20", "reject" or "silence"."""
    if answer is None:
        return SILENCE
    verdict = _VERDICTS.get(answer.code, answer.code)
    vlan = f" VLAN {answer.vlan}" if answer.vlan else ""
    timeout = answer.first("Session-Timeout")
    return f"{verdict}{vlan}{f', {timeout} s' if timeout else ''}"


def describe_eap_result(result: EapolResult, *, keys: bool = True) -> str:
    """Return a text like `describe_response`, with the EAP result.

    For several equal responses, the text begins with "4 x permit".
    """
    texts = list(dict.fromkeys(describe_response(answer) for answer in result.answers)) or [SILENCE]
    count = f"{len(result.answers)} x " if len(result.answers) > 1 else ""
    text = count + " and ".join(texts)
    if any(answer.code == "Access-Reject" for answer in result.answers):
        return f"{text}, {'EAP-Failure' if result.access_reject_has_eap_failure else 'no EAP-Failure'}"
    if keys and result.answers:
        text += ", keys" if result.mppe_ok else ", no keys"
    return text if result.success or not result.answers else f"{text}, but the supplicant failed"
