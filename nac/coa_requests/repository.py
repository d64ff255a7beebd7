from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from nac.ids import TenantId
from nac.models import CoaRequest


def list_page(
    session: Session,
    tenant_id: TenantId,
    *,
    states: Sequence[str],
    equal: Mapping[str, Any],
    user: str,
    before_id: int | None,
    limit: int,
) -> Sequence[CoaRequest]:
    """`equal`: values by column."""
    query = select(CoaRequest).where(CoaRequest.tenant_id == tenant_id).order_by(CoaRequest.id.desc()).limit(limit)
    query = query.filter_by(**equal)
    if states:
        query = query.where(CoaRequest.state.in_(states))
    if user:
        query = query.where(func.lower(CoaRequest.identity) == user.lower())
    if before_id is not None:
        query = query.where(CoaRequest.id < before_id)
    return session.scalars(query).all()


def list_by_ids(session: Session, tenant_id: TenantId, ids: Sequence[int]) -> Sequence[CoaRequest]:
    query = select(CoaRequest).where(CoaRequest.tenant_id == tenant_id, CoaRequest.id.in_(ids)).order_by(CoaRequest.id)
    return session.scalars(query.execution_options(populate_existing=True)).all()


def lock(session: Session, tenant_id: TenantId, request_id: int) -> CoaRequest | None:
    return session.scalar(
        select(CoaRequest).where(CoaRequest.tenant_id == tenant_id, CoaRequest.id == request_id).with_for_update()
    )
