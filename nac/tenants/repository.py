from collections.abc import Collection, Sequence

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from nac.db.sets import among
from nac.ids import TenantId
from nac.models import (
    EndpointEvidence,
    EndpointSighting,
    EndpointWork,
    ExternalCertificate,
    PolicyHits,
    RadiusSession,
    Tenant,
)


def get_by_slug(session: Session, slug: str) -> Tenant | None:
    return session.scalar(select(Tenant).where(Tenant.slug == slug))


def lock(session: Session, tenant_id: TenantId) -> Tenant | None:
    return session.scalar(
        select(Tenant).where(Tenant.id == tenant_id).with_for_update().execution_options(populate_existing=True)
    )


def get(session: Session, tenant_id: TenantId) -> Tenant | None:
    return session.get(Tenant, tenant_id, populate_existing=True)


def list_page(session: Session, *, after_slug: str, limit: int, only: Collection[TenantId] | None) -> Sequence[Tenant]:
    query = select(Tenant).where(Tenant.slug > after_slug).order_by(Tenant.slug).limit(limit)
    if only is not None:
        query = query.where(among(Tenant.id, only))
    return session.scalars(query).all()


def delete_rows(session: Session, tenant_id: TenantId) -> None:
    """The tenant and all that goes with it, but for its logs, which are deleted in batches later."""
    for unreferenced in (
        *(RadiusSession, EndpointSighting, EndpointEvidence, EndpointWork, PolicyHits),
        ExternalCertificate,
    ):
        session.execute(delete(unreferenced).where(unreferenced.tenant_id == tenant_id))
    session.execute(delete(Tenant).where(Tenant.id == tenant_id))
