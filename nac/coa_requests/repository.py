from collections.abc import Sequence

from sqlalchemy import select
from sqlalchemy.orm import Session

from nac.ids import TenantId
from nac.models import CoaRequest


def list_page(
    session: Session, tenant_id: TenantId, *, states: Sequence[str], before_id: int | None, limit: int
) -> Sequence[CoaRequest]:
    query = select(CoaRequest).where(CoaRequest.tenant_id == tenant_id).order_by(CoaRequest.id.desc()).limit(limit)
    if states:
        query = query.where(CoaRequest.state.in_(states))
    if before_id is not None:
        query = query.where(CoaRequest.id < before_id)
    return session.scalars(query).all()


def list_of_session(session: Session, tenant_id: TenantId, rows: Sequence[int], kind: str) -> Sequence[CoaRequest]:
    """What is queued of this kind about these sessions."""
    return session.scalars(
        select(CoaRequest)
        .where(
            CoaRequest.tenant_id == tenant_id,
            CoaRequest.session_row.in_(rows),
            CoaRequest.kind == kind,
            CoaRequest.state == "queued",
        )
        .order_by(CoaRequest.id)
    ).all()


def lock(session: Session, tenant_id: TenantId, request_id: int) -> CoaRequest | None:
    return session.scalar(
        select(CoaRequest).where(CoaRequest.tenant_id == tenant_id, CoaRequest.id == request_id).with_for_update()
    )
