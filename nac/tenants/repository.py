from collections.abc import Sequence

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

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


def list_page(session: Session, *, after_slug: str, limit: int) -> Sequence[Tenant]:
    return session.scalars(select(Tenant).where(Tenant.slug > after_slug).order_by(Tenant.slug).limit(limit)).all()


def delete_rows(session: Session, tenant_id: TenantId) -> None:
    """The tenant and all that goes with it, but for its logs, which are deleted in batches later."""
    for unreferenced in (
        *(RadiusSession, EndpointSighting, EndpointEvidence, EndpointWork, PolicyHits),
        ExternalCertificate,
    ):
        session.execute(delete(unreferenced).where(unreferenced.tenant_id == tenant_id))
    session.execute(delete(Tenant).where(Tenant.id == tenant_id))
