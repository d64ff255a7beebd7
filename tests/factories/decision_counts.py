"""Counts of decisions, as the agent writes them."""

from datetime import datetime

from sqlalchemy import Engine, text
from sqlalchemy.orm import Session

from nac.kit.ids import TenantId

_DECISIONS = text("""
INSERT INTO decision_counts AS known (tenant_id, seconds, start_at, permitted, quarantined, rejected)
SELECT :tenant, s, to_timestamp(floor(extract(epoch FROM CAST(:at AS timestamptz)) / s) * s), :permitted, :quarantined,
    :rejected
FROM (VALUES (60), (3600)) periods (s)
ON CONFLICT (tenant_id, seconds, start_at) DO UPDATE SET
    permitted = known.permitted + excluded.permitted, quarantined = known.quarantined + excluded.quarantined,
    rejected = known.rejected + excluded.rejected
""")
_REJECTS = text("""
INSERT INTO reject_counts AS known (tenant_id, seconds, start_at, reason, rejected)
SELECT :tenant, s, to_timestamp(floor(extract(epoch FROM CAST(:at AS timestamptz)) / s) * s), :reason, :rejected
FROM (VALUES (60), (3600)) periods (s)
ON CONFLICT (tenant_id, seconds, start_at, reason) DO UPDATE SET rejected = known.rejected + excluded.rejected
""")


def count_decisions(
    owner_engine: Engine,
    tenant_id: TenantId,
    at: datetime,
    *,
    permitted: int = 0,
    quarantined: int = 0,
    rejected: int = 0,
    reason: str = "unknown-mac",
) -> None:
    """Count decisions in their minute and in their hour. `reason` is the reason of the rejects."""
    values = {"tenant": tenant_id, "at": at, "permitted": permitted, "quarantined": quarantined, "rejected": rejected}
    with Session(owner_engine) as session, session.begin():
        session.execute(_DECISIONS, values)
        if rejected:
            session.execute(_REJECTS, values | {"reason": reason})
