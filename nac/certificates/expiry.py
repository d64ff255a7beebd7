"""Certificates that expire soon: lists, counts and warnings.

A warning period is a number of days before the expiry (EXPIRY_WINDOW_DAYS). Admit warns at most once about a
certificate in each warning period. Admit skips a warning period that is longer than half of the certificate's validity.

The module covers authorities (created by Admit or uploaded), server certificates and client certificates. It omits a
certificate if a newer certificate has the same name and profile.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from typing import Any, Literal, get_args
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.orm import Session

from nac.core.audit import service as audit
from nac.kit.ids import TenantId

ExpiringKind = Literal["authority", "server", "client"]
EXPIRING_KINDS: tuple[ExpiringKind, ...] = get_args(ExpiringKind)
_MAX_NAMED = 20
_LIST_SQL = text("""
SELECT kind, id, serial, name, profile, not_after FROM expiring
WHERE tenant_id = :tenant AND not_after > :now AND not_after <= :now + make_interval(days => :within)
    AND kind = ANY (:kinds) AND (not_after, id) > (:after_end, CAST(:after_id AS uuid))
ORDER BY not_after, id LIMIT :limit
""")
_LIST_DESCENDING_SQL = text("""
SELECT kind, id, serial, name, profile, not_after FROM expiring
WHERE tenant_id = :tenant AND not_after > :now AND not_after <= :now + make_interval(days => :within)
    AND kind = ANY (:kinds)
    AND (CAST(:after_end AS timestamptz) IS NULL OR (not_after, id) < (:after_end, CAST(:after_id AS uuid)))
ORDER BY not_after DESC, id DESC LIMIT :limit
""")
_COUNT_SQL = text("""
SELECT kind, days, count(*) FROM expiring, unnest(CAST(:windows AS int[])) days
WHERE tenant_id = :tenant AND not_after > :now AND not_after <= :now + make_interval(days => days)
    AND not_after <= :now + make_interval(days => :within)
GROUP BY kind, days
""")
_WARN_SQL = text("""
WITH given AS (
    INSERT INTO expiry_warnings (tenant_id, subject_id, days, warned_at)
    SELECT s.tenant_id, s.id, w.days, :now FROM expiring s CROSS JOIN LATERAL (
        SELECT min(days) AS days FROM unnest(CAST(:windows AS int[])) days
        WHERE s.not_after <= :now + make_interval(days => days)
            AND make_interval(days => days) < (s.not_after - s.not_before) / 2
    ) w
    WHERE s.tenant_id = :tenant AND s.not_after > :now AND s.not_after <= :now + make_interval(days => :within)
        AND w.days IS NOT NULL
    -- A stored time of a warning in the future comes from a wrong clock. Warn again.
    ON CONFLICT (tenant_id, subject_id, days) DO UPDATE SET warned_at = excluded.warned_at
        WHERE expiry_warnings.warned_at > excluded.warned_at + interval '5 minutes'
    RETURNING subject_id, days
)
SELECT s.kind, s.id, s.serial, s.name, s.profile, s.not_after, g.days
FROM given g JOIN expiring s ON s.id = g.subject_id ORDER BY s.kind, g.days, s.not_after, s.id
""")
# Number of days before the expiry at which each warning period begins.
EXPIRY_WINDOW_DAYS = (60, 30, 14, 7, 1)


@dataclass(frozen=True, slots=True)
class ExpiringItem:
    kind: ExpiringKind
    id: UUID
    # Serial number in hexadecimal; "" for an authority.
    serial: str
    name: str
    # Certificate profile; for an authority, the kind of the authority.
    profile: str
    not_after: datetime


@dataclass(frozen=True, slots=True)
class ExpiryNotice:
    subject: ExpiringItem
    days: int


def list_expiring(
    session: Session,
    *,
    tenant_id: TenantId,
    now: datetime,
    within_days: int = EXPIRY_WINDOW_DAYS[0],
    kinds: Sequence[ExpiringKind] = EXPIRING_KINDS,
    after: ExpiringItem | None = None,
    limit: int = 1000,
    last_first: bool = False,
) -> list[ExpiringItem]:
    """List valid certificates that expire within `within_days`, earliest expiry first (latest first with `last_first`).

    `after` is the last item of the previous page.
    """
    parameters = _parameters(tenant_id, now, within_days) | {
        "kinds": list(kinds),
        "after_end": after.not_after if after else None if last_first else now,
        "after_id": after.id if after else UUID(int=0),
        "limit": limit,
    }
    return [
        ExpiringItem(*row) for row in session.execute(_LIST_DESCENDING_SQL if last_first else _LIST_SQL, parameters)
    ]


def count_expiring(session: Session, *, tenant_id: TenantId, now: datetime) -> dict[ExpiringKind, dict[int, int]]:
    """Count expiring certificates by kind and warning period (days). A longer period includes all shorter periods."""
    counts: dict[ExpiringKind, dict[int, int]] = {kind: dict.fromkeys(EXPIRY_WINDOW_DAYS, 0) for kind in EXPIRING_KINDS}
    parameters = _parameters(tenant_id, now, EXPIRY_WINDOW_DAYS[0]) | {"windows": list(EXPIRY_WINDOW_DAYS)}
    for kind, days, count in session.execute(_COUNT_SQL, parameters):
        counts[kind][days] = count
    return counts


def record_warnings(session: Session, *, actor: str, tenant_id: TenantId, now: datetime) -> list[ExpiryNotice]:
    """Record and return new warnings: at most one per certificate and warning period.

    A certificate in several warning periods gets only the warning of the shortest period.
    """
    parameters = _parameters(tenant_id, now, EXPIRY_WINDOW_DAYS[0]) | {"windows": list(EXPIRY_WINDOW_DAYS)}
    rows = session.execute(_WARN_SQL, parameters).all()
    warnings = [ExpiryNotice(ExpiringItem(*row[:-1]), row.days) for row in rows]
    for target, after in _iter_audit_entries(warnings):
        audit.append(
            session, actor=actor, action="certificate.expiring", target=target, tenant_id=tenant_id, after=after
        )
    return warnings


def _iter_audit_entries(warnings: Sequence[ExpiryNotice]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield target and content of each audit entry: one entry for each authority and each server certificate, and one
    entry for all client certificates of a warning period."""
    for (kind, days), group in groupby(warnings, lambda warning: (warning.subject.kind, warning.days)):
        subjects = [warning.subject for warning in group]
        if kind == "client":
            first = [subject.serial for subject in subjects[:_MAX_NAMED]]
            yield f"{days} days", {"kind": kind, "days": days, "count": len(subjects), "first": first}
        else:
            for subject in subjects:
                end = subject.not_after.isoformat()
                yield subject.serial or subject.name, {"kind": kind, "days": days, "not_after": end}


def _parameters(tenant_id: TenantId, now: datetime, within_days: int) -> dict[str, Any]:
    return {"tenant": tenant_id, "now": now, "within": within_days}
