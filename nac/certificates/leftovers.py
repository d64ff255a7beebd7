"""Certificates that would outlive whom they were issued to: good still, and in no list of what is to be revoked."""

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from nac.clock import utc_now
from nac.errors import InUse
from nac.models import Certificate, Endpoint, User


def require_none_left(session: Session, holder: Endpoint | User, *, remedy: str) -> None:
    """Raises InUse. The caller has locked `holder`: none is begun for it meanwhile."""
    issued_to = Certificate.endpoint_id if isinstance(holder, Endpoint) else Certificate.user_id
    query = select(func.count()).where(
        Certificate.tenant_id == holder.tenant_id,
        issued_to == holder.id,
        Certificate.status.in_(("intended", "valid", "suspended")),
        Certificate.not_after > utc_now(),
    )
    if count := session.scalar(query):
        raise InUse(f"Certificates issued to it are not revoked: {count}.", place="certificates", remedy=remedy)
