"""Checks that an endpoint or user has no valid certificates before Admit deletes the endpoint or user."""

from collections.abc import Collection
from uuid import UUID

from sqlalchemy import ARRAY, ColumnElement, Uuid, func, literal, select
from sqlalchemy.orm import Session

from nac.kit.clock import utc_now
from nac.kit.errors import InUse
from nac.kit.ids import TenantId
from nac.models import Certificate, Endpoint, User


def require_no_good_certificates(session: Session, holder: Endpoint | User, *, remedy: str) -> None:
    """Raise InUse if the endpoint or user `holder` has valid certificates. The caller must have locked its row."""
    issued_to = Certificate.endpoint_id if isinstance(holder, Endpoint) else Certificate.user_id
    query = select(func.count()).where(
        Certificate.tenant_id == holder.tenant_id,
        issued_to == holder.id,
        *_good_clauses(),
    )
    if count := session.scalar(query):
        kind = "endpoint" if isinstance(holder, Endpoint) else "user"
        raise InUse(f"The {kind} has certificates that are not revoked: {count}.", place="certificates", remedy=remedy)


def find_holders_with_certificates(
    session: Session, *, tenant_id: TenantId, endpoint_ids: Collection[UUID]
) -> set[UUID]:
    """Return the ids of the endpoints that have valid certificates. The caller must have locked the endpoints."""
    is_requested = func.any(literal(list(endpoint_ids), ARRAY(Uuid())))
    query = select(Certificate.endpoint_id).where(
        Certificate.tenant_id == tenant_id, Certificate.endpoint_id == is_requested, *_good_clauses()
    )
    return {endpoint_id for endpoint_id in session.scalars(query) if endpoint_id is not None}


def _good_clauses() -> tuple[ColumnElement[bool], ...]:
    return (
        Certificate.status.in_(("intended", "valid", "suspended")),
        Certificate.not_after > utc_now(),
    )
