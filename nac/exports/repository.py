from collections.abc import Sequence

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from nac.ids import TenantId
from nac.models import ExportJob


def list_page(
    session: Session, tenant_id: TenantId, *, states: Sequence[str], before_id: int | None, limit: int
) -> Sequence[ExportJob]:
    query = select(ExportJob).where(ExportJob.tenant_id == tenant_id).order_by(ExportJob.id.desc()).limit(limit)
    if states:
        query = query.where(ExportJob.state.in_(states))
    if before_id is not None:
        query = query.where(ExportJob.id < before_id)
    return session.scalars(query).all()


def get(session: Session, tenant_id: TenantId, job_id: int) -> ExportJob | None:
    query = select(ExportJob).where(ExportJob.tenant_id == tenant_id, ExportJob.id == job_id)
    return session.scalar(query.execution_options(populate_existing=True))


def lock(session: Session, tenant_id: TenantId, job_id: int) -> ExportJob | None:
    query = select(ExportJob).where(ExportJob.tenant_id == tenant_id, ExportJob.id == job_id)
    return session.scalar(query.with_for_update().execution_options(populate_existing=True))


def count_waiting(session: Session, tenant_id: TenantId) -> int:
    """Of those that somebody asked for."""
    query = select(func.count()).where(
        ExportJob.tenant_id == tenant_id, ExportJob.state.in_(("queued", "running")), ~ExportJob.standing
    )
    return session.scalars(query).one()
