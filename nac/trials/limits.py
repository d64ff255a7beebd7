"""What a tenant on trial may have. Asked by the services that add to it; a cell knows nothing of trials."""

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from nac.errors import Conflict
from nac.ids import TenantId
from nac.models import Endpoint, Trial


class TrialLimitReached(Conflict):
    """The trial allows no more."""


def require_endpoint_limit(session: Session, *, tenant_id: TenantId) -> None:
    """After devices were approved, before the commit. Raises TrialLimitReached; of other tenants never."""
    session.flush()
    query = select(Trial.most_endpoints).where(Trial.tenant_id == tenant_id, Trial.state != "converted")
    # One at a time counts: what two add together is not over the limit either.
    most = session.scalar(query.with_for_update())
    if most is None:
        return
    approved = select(Endpoint.id).where(Endpoint.tenant_id == tenant_id, Endpoint.status.in_(("active", "blocked")))
    found = session.scalars(select(func.count()).select_from(approved.limit(most + 1).subquery())).one()
    if found > most:
        raise TrialLimitReached(
            f"The trial is of {most} devices.",
            place="mac",
            remedy="Remove some, or ask for the trial to be converted.",
        )
