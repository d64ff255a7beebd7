"""Rows that the demo's requests produced, read from PostgreSQL in the tenant's scope.

The requests of a check contain a unique text, the mark of the check, in NAS-Port-Id and Acct-Session-Id.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from sqlalchemy import select
from sqlalchemy.orm import Session

from cli.command_context import CommandContext
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
    """Return the log rows of each check, by the mark of the check.

    Waits up to a limit for the number of rows in `expected`.
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
