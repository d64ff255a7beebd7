from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import BigInteger, any_, cast, func, select
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.orm import Session

from nac.db.orders import Orders, Span
from nac.ids import TenantId
from nac.models import CoaRequest
from nac.sessions import repository as sessions

ORDERS = Orders({"id": (CoaRequest.id,)}, default="-id")


def list_page(
    session: Session,
    tenant_id: TenantId,
    *,
    states: Sequence[str],
    equal: Mapping[str, Any],
    user: str,
    nas_said: str,
    span: Span,
) -> Sequence[CoaRequest]:
    """`equal`: values by column; `nas_said` what a NAS that is not registered says of itself."""
    query = span.of(select(CoaRequest).where(CoaRequest.tenant_id == tenant_id))
    query = query.filter_by(**equal)
    if states:
        query = query.where(CoaRequest.state.in_(states))
    if user:
        query = query.where(func.lower(CoaRequest.identity) == user.lower())
    if nas_said:
        query = query.where(sessions.nas_said(CoaRequest.nas_key) == nas_said)
    return session.scalars(query).all()


def list_by_ids(session: Session, tenant_id: TenantId, ids: Sequence[int]) -> Sequence[CoaRequest]:
    listed = CoaRequest.id == any_(cast(list(ids), ARRAY(BigInteger)))
    query = select(CoaRequest).where(CoaRequest.tenant_id == tenant_id, listed).order_by(CoaRequest.id)
    return session.scalars(query.execution_options(populate_existing=True)).all()


def lock(session: Session, tenant_id: TenantId, request_id: int) -> CoaRequest | None:
    return session.scalar(
        select(CoaRequest).where(CoaRequest.tenant_id == tenant_id, CoaRequest.id == request_id).with_for_update()
    )
