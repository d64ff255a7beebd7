from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from nac.kit.db.sort_orders import PageSpan, SortOrders
from nac.kit.ids import TenantId
from nac.models import ExportJob, RetentionSetting

ORDERS = SortOrders({"id": (ExportJob.id,)}, default="-id")
# Actor of required exports, which retention starts before it deletes rows.
RETENTION_ACTOR = "system:retention"


@dataclass(frozen=True, slots=True)
class KeptExports:
    """Number and size of exports that have files, or will have files."""

    jobs: int
    bytes: int


def list_page(session: Session, tenant_id: TenantId, *, states: Sequence[str], span: PageSpan) -> Sequence[ExportJob]:
    query = span.of(select(ExportJob).where(ExportJob.tenant_id == tenant_id))
    if states:
        query = query.where(ExportJob.state.in_(states))
    return session.scalars(query).all()


def get(session: Session, tenant_id: TenantId, job_id: int) -> ExportJob | None:
    query = select(ExportJob).where(ExportJob.tenant_id == tenant_id, ExportJob.id == job_id)
    return session.scalar(query.execution_options(populate_existing=True))


def lock_job(session: Session, tenant_id: TenantId, job_id: int) -> ExportJob | None:
    query = select(ExportJob).where(ExportJob.tenant_id == tenant_id, ExportJob.id == job_id)
    return session.scalar(query.with_for_update().execution_options(populate_existing=True))


def count_waiting(session: Session, tenant_id: TenantId) -> int:
    """Count the tenant's pending exports that users started."""
    query = select(func.count()).where(
        ExportJob.tenant_id == tenant_id, ExportJob.state.in_(("queued", "running")), ~ExportJob.standing
    )
    return session.scalars(query).one()


def sum_kept(session: Session, tenant_id: TenantId) -> KeptExports:
    """Return number and size of the tenant's exports that users started."""
    query = select(func.count(), func.coalesce(func.sum(ExportJob.bytes), 0)).where(
        ExportJob.tenant_id == tenant_id,
        ExportJob.state.in_(("queued", "running", "done", "failed")),
        ExportJob.asked_by != RETENTION_ACTOR,
    )
    jobs, size = session.execute(query).one()
    return KeptExports(jobs, int(size))


def has_export_order(session: Session, tenant_id: TenantId, log: str) -> bool:
    """Return whether the tenant requires an export of the log before retention deletes rows."""
    query = select(RetentionSetting.export_format).where(
        RetentionSetting.tenant_id == tenant_id, RetentionSetting.log == log
    )
    return session.scalar(query) is not None
