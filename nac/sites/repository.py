from collections.abc import Sequence

from sqlalchemy import select
from sqlalchemy.orm import Session

from nac.ids import TenantId
from nac.models import Site


def get_by_slug(session: Session, tenant_id: TenantId, slug: str) -> Site | None:
    return session.scalar(select(Site).where(Site.tenant_id == tenant_id, Site.slug == slug))


def list_all(session: Session, tenant_id: TenantId) -> Sequence[Site]:
    return session.scalars(select(Site).where(Site.tenant_id == tenant_id).order_by(Site.slug)).all()
