"""Intents: rows of certificates (status `intended`) and authorities that Admit recorded but has not signed.

Admit commits an intent before it uses the authority's key for the signature. Admit abandons old intents. While Admit
signs, it locks the row, and it stores the certificate only if the intent is not abandoned. So an abandoned intent never
becomes a valid certificate.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Row, func, select, text, true, update
from sqlalchemy.orm import Session

from nac.certificates.status_changes import record_status_change
from nac.core.audit import service as audit
from nac.kit.ids import TenantId
from nac.models import AuthorityIntent, Certificate, EnrolmentSecret

# A signature takes milliseconds, or seconds in a slow PKCS#11 token. After this time, an intent is stale: another
# request with the same enrolment secret or key can replace it.
STALE_AFTER = timedelta(seconds=10)
# The worker abandons an intent after this time.
ABANDON_AFTER = timedelta(minutes=1)
BATCH_SIZE = 1_000

_TENANTS_SQL = text("SELECT tenant_id FROM tenants_with_intents(now() - :age) AS found (tenant_id)")


@dataclass(frozen=True, slots=True)
class AbandonedIntents:
    certificates: int
    authorities: int


def abandon_intents(
    session: Session,
    *,
    actor: str,
    tenant_id: TenantId,
    which: ColumnElement[bool],
    now: datetime,
    older_than: timedelta | None = None,
) -> int:
    """Abandon the intents of certificates that match `which`, and return their number.

    For each abandoned intent, the function subtracts one use from the intent's enrolment secret.

    With `older_than`, the function skips younger intents, and intents that another process is signing. Without
    `older_than`, the function waits until running signatures are complete.
    """
    row, age = Certificate, older_than or timedelta()
    query = (
        select(row)
        .where(row.tenant_id == tenant_id, row.status == "intended", row.created_at <= func.now() - age, which)
        .order_by(row.serial)
        .limit(BATCH_SIZE)
        .with_for_update(skip_locked=older_than is not None)
        .execution_options(populate_existing=True)
    )
    count = 0
    while rows := session.scalars(query).all():
        _abandon_rows(session, actor, rows, now)
        count += len(rows)
    return count


def wait_for_signatures(session: Session, *, tenant_id: TenantId, which: ColumnElement[bool]) -> None:
    """Wait until no other process signs an intent that matches `which`."""
    row = Certificate
    young = row.created_at > func.now() - STALE_AFTER
    query = select(row.id).where(row.tenant_id == tenant_id, row.status == "intended", young, which)
    session.execute(query.with_for_update(read=True))


def _abandon_rows(session: Session, actor: str, rows: Sequence[Certificate], now: datetime) -> None:
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
    # The revocation list contains abandoned certificates, because Admit may have signed a certificate before a crash.
    record_status_change(session, *rows)


def list_tenants_with_stale_intents(session: Session) -> Sequence[TenantId]:
    """List tenants that have intents older than ABANDON_AFTER. Requires a session in PlatformScope."""
    rows: Sequence[Row[Any]] = session.execute(_TENANTS_SQL, {"age": ABANDON_AFTER}).all()
    return [TenantId(row.tenant_id) for row in rows]


def abandon_stale_intents(session: Session, *, actor: str, tenant_id: TenantId, now: datetime) -> AbandonedIntents:
    """Abandon the tenant's intents that are older than ABANDON_AFTER.

    If the key of an abandoned authority is in a PKCS#11 token, an administrator must delete the key in the token.
    """
    certificates = abandon_intents(
        session, actor=actor, tenant_id=tenant_id, which=true(), now=now, older_than=ABANDON_AFTER
    )
    intent = AuthorityIntent
    left = session.scalars(
        select(intent)
        .where(
            intent.tenant_id == tenant_id,
            intent.signed_at.is_(None),
            intent.abandoned_at.is_(None),
            intent.created_at <= func.now() - ABANDON_AFTER,
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
    return AbandonedIntents(certificates, len(left))
