"""What was to be signed and was not finished: abandoned after a while, told, and never good.

An intent is committed before the key is used. For the signature its row is locked, and what was signed is stored only
where the row is `intended` still. So who abandons it knows that a signature that comes late is thrown away.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Row, func, select, text, true, update
from sqlalchemy.orm import Session

from nac.audit import service as audit
from nac.certificates.status import status_changed
from nac.ids import TenantId
from nac.models import AuthorityIntent, Certificate, EnrolmentSecret

# A process signs within milliseconds, or seconds where a token is slow: until then an intent counts as if it were
# finished, afterwards whoever shows the same secret or key takes its place.
STALE_AFTER = timedelta(seconds=10)
# What nobody came back for is settled by the worker.
SETTLED_AFTER = timedelta(minutes=1)
BATCH = 1_000

_TENANTS = text("SELECT tenant_id FROM tenants_with_intents(now() - :age) AS found (tenant_id)")


@dataclass(frozen=True, slots=True)
class Settled:
    certificates: int
    authorities: int


def abandon(
    session: Session,
    *,
    actor: str,
    tenant_id: TenantId,
    which: ColumnElement[bool],
    now: datetime,
    older_than: timedelta | None = None,
) -> int:
    """Give up the intents among `which`; uses of secrets that were taken for them come back. Returns how many.

    With an age those alone that are older and that nobody is signing now; without one who signs now is waited for.
    """
    row, age = Certificate, older_than or timedelta()
    query = (
        select(row)
        .where(row.tenant_id == tenant_id, row.status == "intended", row.created_at <= func.now() - age, which)
        .order_by(row.serial)
        .limit(BATCH)
        .with_for_update(skip_locked=older_than is not None)
        .execution_options(populate_existing=True)
    )
    count = 0
    while rows := session.scalars(query).all():
        _abandon(session, actor, rows, now)
        count += len(rows)
    return count


def wait(session: Session, *, tenant_id: TenantId, which: ColumnElement[bool]) -> None:
    """Until those who sign some of `which` now are done, one way or the other."""
    row = Certificate
    young = row.created_at > func.now() - STALE_AFTER
    query = select(row.id).where(row.tenant_id == tenant_id, row.status == "intended", young, which)
    session.execute(query.with_for_update(read=True))


def _abandon(session: Session, actor: str, rows: Sequence[Certificate], now: datetime) -> None:
    for row in rows:
        row.status, row.revoked_at = "abandoned", now
        audit.append(
            session,
            actor=actor,
            action="certificate.abandon",
            target=row.serial.hex(),
            tenant_id=row.tenant_id,
            before={"status": "intended"},
            after={"status": row.status, "profile": row.profile, "subject": row.subject},
        )
    taken = Counter(row.secret_id for row in rows if row.secret_id is not None)
    for secret_id in sorted(taken):
        secret = EnrolmentSecret
        session.execute(update(secret).where(secret.id == secret_id).values(uses=secret.uses - taken[secret_id]))
    # On the list of the revoked, too: there may be a signature of it.
    status_changed(session, *rows)


def tenants_to_settle(session: Session) -> Sequence[TenantId]:
    """Of all tenants; in PlatformScope."""
    found: Sequence[Row[Any]] = session.execute(_TENANTS, {"age": SETTLED_AFTER}).all()
    return [TenantId(row.tenant_id) for row in found]


def settle(session: Session, *, actor: str, tenant_id: TenantId, now: datetime) -> Settled:
    """Give up what nobody finished. A key that was made in a token for such an authority stays there, for a person."""
    certificates = abandon(session, actor=actor, tenant_id=tenant_id, which=true(), now=now, older_than=SETTLED_AFTER)
    intent = AuthorityIntent
    left = session.scalars(
        select(intent)
        .where(
            intent.tenant_id == tenant_id,
            intent.signed_at.is_(None),
            intent.abandoned_at.is_(None),
            intent.created_at <= func.now() - SETTLED_AFTER,
        )
        .with_for_update(skip_locked=True)
    ).all()
    for row in left:
        row.abandoned_at = now
        audit.append(
            session,
            actor=actor,
            action="authority.abandon",
            target=row.subject,
            tenant_id=tenant_id,
            after={"id": str(row.id), "kind": row.kind, "serial": row.serial.hex(), "key_store": row.key_store},
        )
    return Settled(certificates, len(left))
