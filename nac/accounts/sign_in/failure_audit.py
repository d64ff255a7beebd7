"""Audit log entries for failed sign-ins.

The audit log of each MSP and tenant of which the person is a member gets the entries. If the person has no membership,
or very many memberships, only the audit log of the platform gets the entries.

Failures are grouped by person or by single sign-on. Failures with unknown e-mail addresses form one group. The first
failure of a group creates an entry at once. Later failures share an entry every ten minutes, with the number of
failures since the last entry. A group has at most seven entries an hour. Needs database role admit_worker and
PlatformScope.
"""

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from sqlalchemy import Engine
from sqlalchemy.orm import Session

from nac.accounts.sign_in import failures, repository
from nac.accounts.sign_in.sign_ins import MAX_AUDITED_OWNERS
from nac.core.access.grants import Owner
from nac.core.audit import service as audit
from nac.core.audit.service import RequestOrigin
from nac.kit.clock import utc_now
from nac.kit.db import PlatformScope, session_scope
from nac.models import SignInFailure

ACTOR = "system:sign-in"
BATCH_SIZE = 200
# Maximum number of source addresses in an entry, most frequent first.
_MAX_SOURCES = 5


def audit_failures(*, engine: Engine | None = None) -> int:
    """Write the due audit log entries. Returns the number of groups of failures with a due entry."""
    with session_scope(PlatformScope(), engine=engine) as session:
        due = repository.list_due_failures(session, now=utc_now(), most=BATCH_SIZE)
    for subject_id, hour in due:
        with session_scope(PlatformScope(), engine=engine) as session:
            _audit_failure(session, subject_id, hour)
    return len(due)


def _audit_failure(session: Session, subject_id: UUID, hour: datetime) -> None:
    rows = repository.lock_failures(session, subject_id, hour)
    fresh = [row for row in rows if row.count > row.audited]
    now = utc_now()
    if fresh:
        last = max(fresh, key=lambda row: row.last_at)
        if last.request_id is not None:
            audit.set_origin(session, RequestOrigin(last.address, last.request_id))
        target, owners = _find_target(session, subject_id)
        entry = {"actor": ACTOR, "action": "sign-in.fail", "target": target, "after": _audit_values(rows, fresh)}
        audit.append_many(session, [{**entry, **owner.columns()} for owner in owners])
    for row in rows:
        row.audited, row.audited_at, row.audit_due_at = row.count, now if row in fresh else row.audited_at, None
    session.flush()


def _audit_values(rows: Sequence[SignInFailure], fresh: Sequence[SignInFailure]) -> dict[str, object]:
    reasons: Counter[str] = Counter()
    sources: Counter[str] = Counter()
    for row in fresh:
        reasons[row.reason] += row.count - row.audited
        sources[str(row.source or "elsewhere")] += row.count - row.audited
    return {
        "attempts": reasons.total(),
        "reasons": dict(reasons),
        "from": [source for source, _ in sources.most_common(_MAX_SOURCES)],
        "sources": len(sources),
        "in_this_hour": sum(row.count for row in rows),
        "until": max(row.last_at for row in fresh).isoformat(),
    }


def _find_target(session: Session, subject_id: UUID) -> tuple[str, Sequence[Owner]]:
    if subject_id == failures.NOBODY_ID:
        return "nobody", [Owner()]
    person = repository.get_person_email(session, subject_id)
    if person is not None:
        return person, repository.list_member_owners(session, subject_id, most=MAX_AUDITED_OWNERS)
    return repository.get_sign_on_issuer(session, subject_id) or ("a deleted account", [Owner()])
