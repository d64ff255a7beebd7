"""Limit of devices of a trial. Admit checks the limit when a user approves devices. Cells do not check the limit."""

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from nac.kit.errors import Conflict
from nac.kit.ids import TenantId
from nac.models import Endpoint, Trial


class TrialLimitReached(Conflict):
    """The limit of the trial is reached."""


def require_endpoint_limit(session: Session, *, tenant_id: TenantId) -> None:
    """Raise TrialLimitReached if a trial has more approved and blocked devices than its limit.

    Call this function after you approve devices, before the commit.
    """
    session.flush()
    query = select(Trial.most_endpoints).where(Trial.tenant_id == tenant_id, Trial.state != "converted")
    # Lock the trial's row: otherwise concurrent transactions together could exceed the limit.
    most = session.scalar(query.with_for_update())
    if most is None:
        return
    approved = select(Endpoint.id).where(Endpoint.tenant_id == tenant_id, Endpoint.status.in_(("active", "blocked")))
    found = session.scalars(select(func.count()).select_from(approved.limit(most + 1).subquery())).one()
    if found > most:
        raise TrialLimitReached(
            f"The trial is limited to {most} devices.",
            place="mac",
            remedy="Remove devices, or ask the platform's operator to convert the trial.",
        )
